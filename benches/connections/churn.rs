//! Connections that come, ask once and go: how many a second, and the server's CPU for each.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::common::Outcome;
use crate::common::http::{Head, get};
use crate::common::lines::{Sources, connect};
use crate::common::process::Server;
use crate::common::stats::{median, median_ratio};
use crate::{Pair, TARGET};

/// Clients at the same time.
const CLIENTS: usize = 32;

async fn send(stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.ready(Interest::WRITABLE).await?;
    let sent = stream.try_write(bytes)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::other("a socket took a part of a request"))
    }
}

/// Connects, asks, reads the answer, closes.
async fn visit(
    from: Ipv4Addr,
    to: SocketAddr,
    request: &[u8],
    held: &mut Vec<u8>,
) -> io::Result<()> {
    let stream = connect(from, to).await?;
    send(&stream, request).await?;
    held.clear();
    let mut chunk = [0; 4096];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            other => held.extend_from_slice(&chunk[..other?]),
        }
        if let Some(head) = Head::read(held)
            && held.len() >= head.length + head.body_length
        {
            return match head.status {
                200 => Ok(()),
                status => Err(io::Error::other(format!("answered {status}"))),
            };
        }
    }
}

/// So many visits: the server's CPU microseconds for each, and visits a second.
fn visits(sources: &mut Sources, server: &Server, count: usize) -> Outcome<(f64, f64)> {
    let each = count / CLIENTS;
    let froms: Vec<Ipv4Addr> = (0..CLIENTS).map(|_| sources.fresh()).collect();
    let to = server.address;
    let (before, begun) = (server.cpu_nanos()?, Instant::now());
    sources.runtime().block_on(async {
        let mut clients = JoinSet::new();
        for from in froms {
            clients.spawn(async move {
                let (request, mut held) = (get(TARGET, ""), Vec::with_capacity(4096));
                for _ in 0..each {
                    visit(from, to, &request, &mut held).await?;
                }
                Ok::<_, io::Error>(())
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    let done = (each * CLIENTS) as f64;
    let seconds = begun.elapsed().as_secs_f64();
    let micros = (server.cpu_nanos()? - before) as f64 / 1000.0;
    Ok((micros / done, done / seconds))
}

/// Both servers in turns; prints the medians.
pub(crate) fn measure(
    pair: &Pair,
    sources: &mut Sources,
    count: usize,
    rounds: usize,
) -> Outcome<()> {
    let mut cpu = [Vec::new(), Vec::new()];
    let mut speed = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for turn in 0..2 {
            // Whoever goes first finds a cooler core, so they take turns at that.
            let at = (turn + round) % 2;
            let (micros, rate) = visits(sources, &pair.servers[at].1, count)?;
            // The first round warms up.
            if round > 0 {
                cpu[at].push(micros);
                speed[at].push(rate);
            }
        }
    }
    println!("\nconnect, one request, close: {count} times in each of {rounds} interleaved rounds");
    println!("  {:<16}{:>10}{:>16}", "", "CPU us", "connections/s");
    for (at, (name, _)) in pair.servers.iter().enumerate() {
        let (micros, rate) = (median(cpu[at].clone()), median(speed[at].clone()));
        println!("  {name:<16}{micros:>10.1}{rate:>16.0}");
    }
    println!("  ratio of CPU {:.2}", median_ratio(&cpu[0], &cpu[1]));
    Ok(())
}
