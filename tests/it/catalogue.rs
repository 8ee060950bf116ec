//! A published catalogue of the size at which responses are many megabytes.

use std::sync::{PoisonError, Weak};

use crate::prelude::*;

pub(crate) const ISLANDS: u32 = 30_000;
/// Islands of the largest creator.
pub(crate) const ISLANDS_OF_ONE: u32 = 5_000;
/// End of each title: it makes the live snapshot longer than any socket buffer.
const LONG_TITLE: &str = " of an island whose title goes on and on as if each of its words were paid for by whoever reads it";

/// The catalogue that tests copy while one of them uses it: publishing it takes seconds.
static ORIGINAL: Mutex<Weak<Original>> = Mutex::new(Weak::new());

/// A dataset, large enough for long bodies, and what was published of it.
struct Original(TempDir);

impl Original {
    fn dataset(&self) -> PathBuf {
        self.0.join("dataset")
    }

    fn new() -> Original {
        let original = Original(TempDir::new());
        let dataset = original.dataset();
        let code = |island: u32| format!("{:04}-{:04}-0001", island / 10_000, island % 10_000);
        let mut islands = "code,title,creator,createdIn,tags\n".to_owned();
        let mut peaks = "code,peakCCU\n".to_owned();
        let mut players = "code,players\n".to_owned();
        for island in 0..ISLANDS {
            let creator = if island < ISLANDS_OF_ONE {
                "large"
            } else {
                "other"
            };
            let tag = island % 7;
            let code = code(island);
            // Makes the gzip form long too.
            let name = u64::from(island).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let title = format!(
                "{island} {name:x} {:x}{LONG_TITLE}",
                name.wrapping_mul(name | 1)
            );
            writeln!(islands, "{code},{title},{creator},uefn,tag {tag}|b").unwrap();
            writeln!(peaks, "{code},{}", island * 7919 % 100_003).unwrap();
            writeln!(players, "{code},{}", island * 7919 % 1_009).unwrap();
        }
        write_file(&dataset.join("islands.csv"), &islands);
        write_file(&dataset.join("ccu/2026-11-01.csv"), &peaks);
        write_file(&dataset.join("ccu/2026-11-02.csv"), &peaks);
        write_file(&dataset.join("live/1795259400.csv"), &players);
        publish(&dataset, &original.0.join("published"), GENERATED_AT);
        original
    }
}

/// A published catalogue of a test.
pub(crate) struct Catalogue {
    pub(crate) published: PathBuf,
    history: PathBuf,
    original: Arc<Original>,
    _dir: TempDir,
}

impl Catalogue {
    pub(crate) fn new() -> Catalogue {
        let original = {
            // A test that failed leaves the original as it was.
            let mut shared = ORIGINAL.lock().unwrap_or_else(PoisonError::into_inner);
            shared.upgrade().unwrap_or_else(|| {
                let original = Arc::new(Original::new());
                *shared = Arc::downgrade(&original);
                original
            })
        };
        let dir = TempDir::new();
        let published = dir.join("published");
        let mut copy = Command::new("cp");
        copy.arg("-a")
            .arg(original.0.join("published"))
            .arg(&published);
        assert!(copy.status().unwrap().success());
        Catalogue {
            history: history_file(&published),
            published,
            original,
            _dir: dir,
        }
    }

    /// Publishes the same dataset ten minutes later.
    pub(crate) fn publish_again(&self) {
        let mut publish = publish_command(&self.original.dataset(), &self.published);
        publish.args(["--full", "--generated-at", "2026-11-21T00:20:00Z"]);
        stderr_of(&publish.output().unwrap(), 0);
    }

    /// Position and length of a stored body in the history.
    pub(crate) fn stored(&self, gzip: &[u8]) -> (u64, u64) {
        let file = fs::read(&self.history).unwrap();
        let at = memchr::memmem::find(&file, gzip).unwrap();
        (at as u64, gzip.len() as u64)
    }

    pub(crate) fn flip(&self, at: u64) {
        flip(&self.history, at, 32);
    }
}
