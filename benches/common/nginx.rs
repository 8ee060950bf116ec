//! nginx, if it is installed: one worker that serves a static file with the same headers.

use std::os::unix::fs::MetadataExt as _;

use crate::common::prelude::*;
use crate::common::requests::{PAGE, if_none_match};

/// With tuning, larger bodies are sent by `sendfile`. For others one write of head and body is cheaper.
const SENDFILE_BYTES: usize = 32 * 1024;

/// Starts nginx in a directory of its own; `None` if it is not installed. Also returns the request
/// to send to it. `tls` are a certificate and its key.
pub(crate) fn start(
    prefix: &Path,
    captured: &Response,
    request: &[u8],
    tuned: bool,
    tls: Option<[&Path; 2]>,
) -> Outcome<Option<(Server, Vec<u8>)>> {
    let Some(program) = installed("nginx") else {
        return Ok(None);
    };
    let file = prefix.join("body");
    // That of a 304 is empty.
    write_file(&file, captured.body())?;
    let about = fs::metadata(&file)?;
    let mut request = request.to_vec();
    if captured.status == 304 {
        // It compares only with the tag of its own file.
        let tag = format!("\"{:x}-{:x}\"", about.mtime(), about.len());
        request = get(PAGE, &if_none_match(&tag));
    }
    let address = free_address()?;
    let mut listen = format!("{address} backlog=4096");
    if let Some([certificate, key]) = tls {
        let (certificate, key) = (certificate.display(), key.display());
        // nginx 1.22 has TLS 1.3 off by default.
        let _ = write!(
            listen,
            " ssl; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {certificate}; \
             ssl_certificate_key {key}"
        );
    }
    let text = configuration(prefix, captured, &listen, tuned);
    write_file(&prefix.join("nginx.conf"), text)?;
    let mut nginx = command(program, Some(SERVER_CORE));
    nginx.arg("-p").arg(prefix).args(["-c", "nginx.conf"]);
    nginx.arg("-e").arg(prefix.join("error.log"));
    Ok(Some((Server::start_silent(nginx, address)?, request)))
}

fn configuration(prefix: &Path, captured: &Response, listen: &str, tuned: bool) -> String {
    let place = prefix.display();
    let mut headers = String::new();
    for (name, value) in &captured.headers {
        // nginx writes these three itself.
        if !["content-length", "content-type", "date"].contains(&name.as_str()) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(headers, "            add_header {name} \"{value}\";");
        }
    }
    let kind = captured.header("content-type").unwrap_or_default();
    let sendfile = if captured.body().len() > SENDFILE_BYTES {
        "on"
    } else {
        "off"
    };
    let reading = if tuned {
        format!(
            "sendfile {sendfile};
    output_buffers 1 256k;
    open_file_cache max=16 inactive=1h;
    open_file_cache_valid 1h;"
        )
    } else {
        "sendfile on;
    tcp_nopush on;"
            .to_owned()
    };
    // Both do without log, own entity tag and ranges.
    format!(
        "daemon off;
worker_processes 1;
pid {place}/nginx.pid;
error_log {place}/error.log crit;
events {{
    worker_connections 4096;
    multi_accept on;
}}
http {{
    access_log off;
    server_tokens off;
    {reading}
    tcp_nodelay on;
    keepalive_timeout 1h;
    keepalive_requests 2000000000;
    client_body_temp_path {place}/tmp;
    proxy_temp_path {place}/tmp;
    fastcgi_temp_path {place}/tmp;
    uwsgi_temp_path {place}/tmp;
    scgi_temp_path {place}/tmp;
    types {{ }}
    default_type \"{kind}\";
    server {{
        listen {listen};
        root {place};
        location / {{
            try_files /body =404;
            max_ranges 0;
            if_modified_since off;
            add_header Last-Modified \"\";
{headers}        }}
    }}
}}
"
    )
}
