//! The proxies nginx and `HAProxy` as clients of TLS, which verify the certificate. A program that is not installed is left out.

use crate::admin::address as free_address;
use crate::prelude::*;
use crate::tls_pairs::{Scene, text};

/// The path of a program. Prints what to install if there is none.
fn installed(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = directories.map(|directory| directory.join(program));
    let found = found.into_iter().find(|place| place.exists());
    if found.is_none() {
        report_skipped(&format!("{program}, `apt-get install {package}`"));
    }
    found
}

/// Starts a proxy and waits until it listens.
fn proxy(program: &Path, arguments: &[&str], address: SocketAddr) -> Running {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    wait_within(Duration::from_secs(20), "the proxy", || {
        TcpStream::connect(address).is_ok()
    });
    running
}

/// Requests through a proxy get the same bodies as without one.
fn assert_same(proxy: SocketAddr, server: SocketAddr) {
    let (mut through, mut direct) = (Client::connect(proxy), Client::connect(server));
    for target in words("/v1/islands?limit=200 /v1 /v1/rankings/latest /v1/none") {
        for _ in 0..5 {
            let (got, wanted) = (through.get(target), direct.get(target));
            assert_eq!(
                (got.status, &got.body),
                (wanted.status, &wanted.body),
                "{target}"
            );
            assert!(
                got.header("strict-transport-security").is_some(),
                "{target}"
            );
        }
    }
}

#[test]
fn nginx_as_a_proxy_over_tls_changes_nothing() {
    let Some(nginx) = installed("nginx", "nginx-light") else {
        return;
    };
    let Some(scene) = Scene::new() else { return };
    let (server, address) = scene.start(&[]);
    let (listen, prefix) = (free_address().0, scene.directory.join("nginx"));
    let (place, authority) = (text(&prefix), text(&scene.pair.authority));
    let configuration = format!(
        "daemon off; master_process off; pid {place}/pid; error_log {place}/log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {place}/a; proxy_temp_path {place}/b; fastcgi_temp_path {place}/c;
    uwsgi_temp_path {place}/d; scgi_temp_path {place}/e;
    upstream api {{ server {address}; keepalive 4; }}
    server {{
        listen {listen};
        location / {{
            proxy_pass https://api;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_ssl_verify on;
            proxy_ssl_name localhost;
            proxy_ssl_trusted_certificate {authority};
        }}
    }}
}}"
    );
    write_file(&prefix.join("nginx.conf"), &configuration);
    let _proxy = proxy(&nginx, &["-p", place, "-c", "nginx.conf"], listen);
    assert_same(listen, server.addr());
}

#[test]
fn haproxy_over_tls_changes_nothing() {
    let Some(haproxy) = installed("haproxy", "haproxy") else {
        return;
    };
    let Some(scene) = Scene::new() else { return };
    let (server, address) = scene.start(&[]);
    let (listen, file) = (free_address().0, scene.directory.join("haproxy.cfg"));
    let authority = text(&scene.pair.authority);
    let configuration = format!(
        "defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
listen api
    bind {listen}
    server one {address} ssl verify required ca-file {authority} verifyhost localhost
"
    );
    write_file(&file, &configuration);
    let _proxy = proxy(&haproxy, &["-db", "-f", text(&file)], listen);
    assert_same(listen, server.addr());
}
