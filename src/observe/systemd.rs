//! Notifications to systemd, as datagrams to the socket that it names (`sd_notify(3)`).

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Maximum wait for a service manager that does not read. Its socket holds ten notifications or more.
const SEND_MAX: Duration = Duration::from_millis(100);
/// The same for readiness, without which the service manager stops the service. No watchdog runs before it.
const SEND_READY_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SystemdEnvironment {
    pub(crate) notify_socket: Option<OsString>,
    /// Maximum time between two watchdog notifications.
    pub(crate) watchdog: Option<Duration>,
    /// The names of the inherited sockets, in their order.
    pub(crate) socket_names: Vec<String>,
}

impl SystemdEnvironment {
    /// Reads the variables, as far as they are for the process with this id.
    pub(crate) fn read(
        process_id: u32,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> SystemdEnvironment {
        let number = |name: &str| variable(name)?.to_str()?.parse::<u64>().ok();
        // A child process must not send the watchdog notifications of its parent.
        let is_ours = variable("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(u64::from(process_id));
        let micros = number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0);
        let names = variable("LISTEN_FDNAMES").and_then(|names| names.into_string().ok());
        SystemdEnvironment {
            notify_socket: variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
            watchdog: micros.map(Duration::from_micros),
            socket_names: names.map_or(Vec::new(), |names| {
                names.split(':').map(str::to_owned).collect()
            }),
        }
    }
}

/// Sends notifications, if there is a socket. Errors are ignored: a service manager that is gone or
/// does not read is no reason to stop.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
}

impl Notifier {
    /// Connects to the socket. A name that starts with `@` is in the abstract namespace.
    pub(crate) fn connect(name: Option<&OsStr>) -> io::Result<Notifier> {
        let Some(name) = name else {
            return Ok(Notifier::default());
        };
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        Ok(Notifier {
            socket: Some(socket),
        })
    }

    /// Reports that the service is ready.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"), SEND_READY_MAX);
    }

    pub(crate) fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={status}"), SEND_MAX);
    }

    #[cfg(feature = "collect")]
    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"), SEND_MAX);
    }

    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1", SEND_MAX);
    }

    fn send(&self, text: &str, max: Duration) {
        let Some(socket) = &self.socket else {
            return;
        };
        let begun = Instant::now();
        while let Err(error) = socket.send(text.as_bytes()) {
            // The timeout of a send, or a signal.
            let may_pass = [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind());
            if !may_pass || begun.elapsed() >= max {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    fn read(set: &[(&str, &str)]) -> SystemdEnvironment {
        SystemdEnvironment::read(7, |name| {
            let found = set.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn only_the_process_of_watchdog_pid_has_a_watchdog() {
        let watchdog = |set: &[(&str, &str)]| read(set).watchdog;
        let ten = ("WATCHDOG_USEC", "10000000");
        assert_eq!(watchdog(&[ten]), Some(Duration::from_secs(10)));
        assert_eq!(watchdog(&[ten, ("WATCHDOG_PID", "7")]), watchdog(&[ten]));
        for set in [
            &[ten, ("WATCHDOG_PID", "8")][..],
            &[ten, ("WATCHDOG_PID", "x")],
            &[("WATCHDOG_USEC", "0")],
            &[("WATCHDOG_USEC", "soon")],
            &[],
        ] {
            assert_eq!(watchdog(set), None, "{set:?}");
        }
        assert_eq!(read(&[("NOTIFY_SOCKET", "")]).notify_socket, None);
    }

    #[test]
    fn inherited_sockets_have_names() {
        let names = |set: &[(&str, &str)]| read(set).socket_names;
        assert_eq!(names(&[("LISTEN_FDNAMES", "api:admin")]), ["api", "admin"]);
        assert_eq!(names(&[]), [""; 0]);
    }

    #[test]
    fn datagrams_arrive_by_path_and_by_abstract_name() {
        let path = std::env::temp_dir().join(format!("im-notify-{}", std::process::id()));
        let abstract_name = format!("im-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (name, listener) in [
            (
                path.clone().into_os_string(),
                UnixDatagram::bind(&path).unwrap(),
            ),
            (
                format!("@{abstract_name}").into(),
                UnixDatagram::bind_addr(&address).unwrap(),
            ),
        ] {
            let notifier = Notifier::connect(Some(&name)).unwrap();
            notifier.ready("serving");
            notifier.alive();
            let mut datagram = [0; 100];
            let mut next = || {
                let length = listener.recv(&mut datagram).unwrap();
                String::from_utf8(datagram[..length].to_vec()).unwrap()
            };
            assert_eq!(next(), "READY=1\nSTATUS=serving");
            assert_eq!(next(), "WATCHDOG=1");
        }
        fs::remove_file(&path).unwrap();
        assert!(Notifier::connect(Some(path.as_os_str())).is_err());
    }

    #[test]
    fn a_full_socket_delays_a_notification_and_does_not_lose_readiness() {
        let path = std::env::temp_dir().join(format!("im-full-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).unwrap();
        listener.set_read_timeout(Some(50 * SEND_MAX)).unwrap();
        let notifier = Notifier::connect(Some(path.as_os_str())).unwrap();
        let socket = notifier.socket.as_ref().unwrap();
        while socket.send(b"WATCHDOG=1").is_ok() {}
        let begun = Instant::now();
        notifier.alive();
        let waited = begun.elapsed();
        assert!(
            waited > SEND_MAX / 2 && waited < 50 * SEND_MAX,
            "{waited:?}"
        );
        thread::scope(|scope| {
            scope.spawn(|| notifier.ready("serving"));
            thread::sleep(3 * SEND_MAX);
            let mut datagram = [0; 100];
            while !datagram.starts_with(b"READY=1") {
                listener.recv(&mut datagram).unwrap();
            }
        });
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn without_a_socket_nothing_is_sent() {
        Notifier::connect(None).unwrap().ready("serving");
    }
}
