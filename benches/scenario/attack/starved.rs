//! A server without free descriptors: its CPU time, and how soon it serves a waiting client when one
//! becomes free.

use socket2::SockRef;

use crate::common::http::connect_slow;
use crate::common::prelude::*;
use crate::scenario::Faults;

/// Descriptors that the server may open, and clients that connect.
const DESCRIPTORS: u64 = 64;
const CLIENTS: u8 = 120;
/// Time over which CPU time is measured.
const MEASURED: Duration = Duration::from_secs(3);
/// Longer than the measurement of a server; with this rate, a client that has taken anything is not slow for twenty
/// seconds.
const TIMEOUT: [&str; 4] = ["--send-seconds", "60", "--send-rate", "1"];
const CPU_SHARE_MAX: f64 = 0.01;
const SERVED_WITHIN: Duration = Duration::from_millis(150);
/// Longest wait for a client to be served.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Measures both servers; a descriptor becomes free so many times.
pub(crate) fn run(times: usize, faults: &Faults) -> Outcome<()> {
    println!(
        "\n{:<24}{:>12}{:>12}{:>16}",
        "starved server", "served", "CPU %", "byte, ms max"
    );
    // Set before the start, so that the server allows fewer connections.
    let serve = world::serve_command(world::LIMIT_MAX);
    let mut limited = command("sh", None);
    let script = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    limited.args(["-c", &script]).arg(serve.get_program());
    limited.args(serve.get_args()).args(TIMEOUT);
    limited.args(["--connections-per-address", "1024"]);
    let server = Server::start(limited)?;
    starve("limit known at start", &server, times, faults)?;
    drop(server);
    // Lowered while the server runs, so that accepting fails.
    let server = world::serve(|serve| {
        serve.args(TIMEOUT);
    })?;
    server.limit_descriptors(DESCRIPTORS)?;
    starve("limit lowered", &server, times, faults)?;
    println!("goals: at most 1 % of a core, and 150 ms after a descriptor is free");
    Ok(())
}

/// Connects a client that requests more than is buffered and reads nothing, so that the server does
/// not close its connection. Each has an address of its own: one may have half of all connections.
fn connect(to: SocketAddr, number: u8) -> Outcome<TcpStream> {
    let mut stream = connect_slow(Ipv4Addr::new(127, 4, 0, number), to)?;
    stream.write_all(&get("/v1/islands?limit=200", "").repeat(64))?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn is_served(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(count) => count > 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Prints how many clients are served while there is no free descriptor, the share of CPU time then,
/// and the longest time from a free descriptor to the first byte for another client.
fn starve(name: &str, server: &Server, times: usize, faults: &Faults) -> Outcome<()> {
    let mut clients = (1..=CLIENTS)
        .map(|number| connect(server.address, number))
        .collect::<Outcome<Vec<TcpStream>>>()?;
    thread::sleep(Duration::from_secs(1));
    let before = (server.cpu_nanos()?, Instant::now());
    thread::sleep(MEASURED);
    let cpu_nanos = server.cpu_nanos()? - before.0;
    let cpu_share = cpu_nanos as f64 / before.1.elapsed().as_nanos() as f64;
    let answered = clients.iter().filter(|client| is_served(client)).count();
    let mut slowest = Duration::ZERO;
    for _ in 0..times {
        let Some(at) = clients.iter().position(is_served) else {
            break;
        };
        if clients.iter().all(is_served) {
            break;
        }
        let leaving = clients.swap_remove(at);
        let waiting: Vec<&TcpStream> = clients.iter().filter(|client| !is_served(client)).collect();
        SockRef::from(&leaving).set_linger(Some(Duration::ZERO))?;
        let free = Instant::now();
        drop(leaving);
        while !waiting.iter().any(|client| is_served(client)) && free.elapsed() < WAIT_MAX {
            thread::sleep(Duration::from_micros(500));
        }
        slowest = slowest.max(free.elapsed());
    }
    let (percent, millis) = (cpu_share * 100.0, slowest.as_secs_f64() * 1000.0);
    println!("{name:<24}{answered:>12}{percent:>12.2}{millis:>16.1}");
    let is_starved = (1..usize::from(CLIENTS)).contains(&answered);
    let fault = format_args!("{name}: {answered} of {CLIENTS} were served");
    faults.require(is_starved, fault);
    let fault = format_args!("{name}: {percent:.1} % of a core while it waited");
    faults.require(cpu_share <= CPU_SHARE_MAX, fault);
    let fault = format_args!("{name}: a response came after {millis:.0} ms");
    faults.require(slowest <= SERVED_WITHIN, fault);
    Ok(())
}
