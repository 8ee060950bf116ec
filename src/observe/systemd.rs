//! What the service manager is told, by datagrams to the socket that it names (`sd_notify(3)`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::sync::{Mutex, MutexGuard, lock};

/// What a service manager has set up for this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supervisor {
    /// Where it wants to be told.
    pub notify_socket: Option<OsString>,
    /// Within which time it wants to hear that all is well.
    pub watchdog: Option<Duration>,
    /// What it calls the sockets that it hands over, in their order.
    pub socket_names: Vec<String>,
}

impl Supervisor {
    /// Reads what the environment says to the process of this number.
    pub fn read(process: u32, variable: impl Fn(&str) -> Option<OsString>) -> Supervisor {
        let number = |name: &str| variable(name)?.to_str()?.parse::<u64>().ok();
        // A child must not feed its parent's watchdog.
        let is_ours = variable("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(u64::from(process));
        let micros = number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0);
        let names = variable("LISTEN_FDNAMES").and_then(|names| names.into_string().ok());
        Supervisor {
            socket_names: names.map_or(Vec::new(), |names| {
                names.split(':').map(str::to_owned).collect()
            }),
            notify_socket: variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
            watchdog: micros.map(Duration::from_micros),
        }
    }
}

/// Tells the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// What it must not miss, and could not take yet.
    owed: Mutex<Option<String>>,
}

impl Notifier {
    /// To the socket of that name; one that begins with `@` is in the abstract namespace.
    pub fn connect(name: Option<&OsStr>) -> io::Result<Notifier> {
        let Some(name) = name else {
            return Ok(Notifier::default());
        };
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // Who does not listen is not waited for.
        socket.set_nonblocking(true)?;
        Ok(Notifier {
            socket: Some(socket),
            owed: Mutex::default(),
        })
    }

    /// It serves; `status` says what.
    pub fn ready(&self, status: &str) {
        self.owe(format!("READY=1\nSTATUS={status}"));
    }

    /// It takes in what has changed; [`ready`](Self::ready) follows. Of one datagram, so that the
    /// manager does not see the one without the other.
    pub fn reloading(&self) {
        self.owe(match uptime_micros() {
            Some(micros) => format!("RELOADING=1\nMONOTONIC_USEC={micros}"),
            None => "RELOADING=1".to_owned(),
        });
    }

    /// It has begun to stop.
    pub fn stopping(&self, status: &str) {
        self.owe(format!("STOPPING=1\nSTATUS={status}"));
    }

    /// What it does.
    pub fn status(&self, status: &str) {
        let _ = self.tell(&format!("STATUS={status}"));
    }

    /// All is well.
    pub fn alive(&self) {
        let _ = self.tell("WATCHDOG=1");
    }

    /// Tells again what could not be taken. To be called now and then.
    pub fn retry(&self) {
        let owed = self.owed().take();
        if let Some(text) = owed {
            self.owe(text);
        }
    }

    /// Tells something that makes all that was owed before it old.
    fn owe(&self, text: String) {
        let is_full = self.tell(&text);
        *self.owed() = is_full.then_some(text);
    }

    fn owed(&self) -> MutexGuard<'_, Option<String>> {
        lock(&self.owed)
    }

    /// Tells something. Whether the manager has no room for it now: one that has gone away, or does not
    /// read, is no reason to stop serving.
    fn tell(&self, text: &str) -> bool {
        let sent = self.socket.as_ref().map(|to| to.send(text.as_bytes()));
        sent.is_some_and(|sent| sent.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock))
    }
}

/// Time on a clock that never runs behind the manager's monotonic one, which it compares this with:
/// it counts sleep too, and is rounded up from the hundredths that the system tells.
fn uptime_micros() -> Option<u64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let (seconds, rest) = text.split_once('.')?;
    let hundredths = rest.get(..2)?.parse::<u64>().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    Some(seconds * 1_000_000 + (hundredths + 1) * 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Supervisor {
        Supervisor::read(7, |name| {
            let found = set.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn a_watchdog_is_fed_by_the_process_that_it_is_set_for_only() {
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
    fn sockets_have_the_names_that_they_are_handed_over_with() {
        let names = |set: &[(&str, &str)]| read(set).socket_names;
        assert_eq!(names(&[("LISTEN_FDNAMES", "api:admin")]), ["api", "admin"]);
        assert_eq!(names(&[]), [""; 0]);
    }

    #[test]
    fn datagrams_arrive_by_path_and_by_abstract_name() {
        let place = std::env::temp_dir().join(format!("im-notify-{}", std::process::id()));
        let abstract_name = format!("im-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (name, listener) in [
            (
                place.clone().into_os_string(),
                UnixDatagram::bind(&place).unwrap(),
            ),
            (
                format!("@{abstract_name}").into(),
                UnixDatagram::bind_addr(&address).unwrap(),
            ),
        ] {
            let notifier = Notifier::connect(Some(&name)).unwrap();
            notifier.ready("serving");
            notifier.reloading();
            notifier.alive();
            let mut datagram = [0; 100];
            let mut next = || {
                let length = listener.recv(&mut datagram).unwrap();
                String::from_utf8(datagram[..length].to_vec()).unwrap()
            };
            assert_eq!(next(), "READY=1\nSTATUS=serving");
            assert!(next().starts_with("RELOADING=1"));
            assert_eq!(next(), "WATCHDOG=1");
        }
        fs::remove_file(&place).unwrap();
        assert!(Notifier::connect(Some(place.as_os_str())).is_err());
    }

    #[test]
    fn readiness_is_told_again_to_a_manager_that_had_no_room_for_it() {
        let place = std::env::temp_dir().join(format!("im-full-{}", std::process::id()));
        let listener = UnixDatagram::bind(&place).unwrap();
        let notifier = Notifier::connect(Some(place.as_os_str())).unwrap();
        while !notifier.tell("WATCHDOG=1") {}
        notifier.ready("serving");
        notifier.retry();
        listener.set_nonblocking(true).unwrap();
        let mut datagram = [0; 100];
        while listener.recv(&mut datagram).is_ok() {}
        notifier.retry();
        notifier.retry();
        let length = listener.recv(&mut datagram).unwrap();
        assert!(datagram[..length].starts_with(b"READY=1"));
        assert!(listener.recv(&mut datagram).is_err(), "told twice");
        fs::remove_file(&place).unwrap();
    }

    #[test]
    fn nobody_is_told_where_nobody_listens() {
        Notifier::connect(None).unwrap().ready("serving");
    }
}
