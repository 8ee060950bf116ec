//! Commands that wait for a lock: they report the lock after a second, and go on when they get it.

use std::os::unix::fs::symlink;

use island_metrics::calendar::UnixSeconds;

use crate::killed_publishes::succeeds;
use crate::prelude::*;

/// A dataset, a published directory and a state directory, all with locks.
struct Scene {
    editions: Editions,
    published: Published,
    dir: TempDir,
}

impl Scene {
    fn new() -> Scene {
        let dir = TempDir::new();
        let scene = Scene {
            editions: Editions::begin(&dir.join("dataset")),
            published: Published::at(&dir.join("published")),
            dir,
        };
        // As a collector creates it.
        File::create(scene.editions.dataset().join(".lock")).unwrap();
        scene
    }

    fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn publish(&mut self) -> Command {
        let edition = self.editions.turn(Change::All);
        self.editions.publish(&edition, self.published.path())
    }
}

/// Takes the lock of a directory.
fn held(directory: &Path) -> File {
    let lock = File::options().append(true).open(directory.join(".lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    lock
}

fn waits_for(directory: &Path) -> String {
    format!(
        "waiting for the lock {}, which another process holds\n",
        directory.join(".lock").display()
    )
}

#[test]
fn a_command_that_waits_for_a_lock_reports_its_path_after_a_second() {
    let mut scene = Scene::new();
    succeeds(scene.publish());
    let (state, target) = (scene.state(), scene.published.path().to_owned());
    let key = issue(&state, "a@x.test", "free");
    let dataset = scene.editions.dataset().to_owned();
    let keys = |words: &[&str]| {
        let mut keys = command();
        keys.arg("keys").args(words).arg("--state").arg(&state);
        keys
    };
    let mut check = command();
    check.args(["check", "--dataset"]).arg(&dataset);
    let rounds: [(&Path, Vec<Command>); 2] = [
        (&dataset, vec![check, scene.publish()]),
        (
            &target,
            vec![
                scene.publish(),
                keys(&["issue", "--address", "b@x.test"]),
                keys(&["revoke", id(&key)]),
                keys(&["restore", id(&key)]),
            ],
        ),
    ];
    for (directory, commands) in rounds {
        let locks = [held(directory), held(&state)];
        let begun = Instant::now();
        let started: Vec<(PathBuf, Child)> = (0..)
            .zip(commands)
            .map(|(number, mut command)| {
                let log = scene.dir.join(&format!("log-{number}"));
                let stderr = File::create(&log).unwrap();
                command.stdout(Stdio::null()).stderr(stderr);
                (log, command.spawn().unwrap())
            })
            .collect();
        let text = |log: &PathBuf| fs::read_to_string(log).unwrap();
        while begun.elapsed() < Duration::from_millis(900) {
            let early: String = started.iter().map(|(log, _)| text(log)).collect();
            // Reading takes time too.
            let is_early = begun.elapsed() < Duration::from_secs(1);
            assert!(!is_early || early.is_empty(), "{early}");
            thread::sleep(Duration::from_millis(50));
        }
        let wants = [waits_for(directory), waits_for(&state)];
        let is_reported = |log: &PathBuf| wants.contains(&text(log));
        wait_for("reports of all", || {
            started.iter().all(|(log, _)| is_reported(log))
        });
        drop(locks);
        for (log, mut child) in started {
            assert!(child.wait().unwrap().success(), "{}", text(&log));
            // Reported once, and first.
            let rest = wants.iter().find_map(|want| {
                let text = text(&log);
                Some(text.strip_prefix(want)?.to_owned())
            });
            assert!(rest.is_some_and(|rest| !rest.contains("waiting")));
        }
    }
    // A lock that is free after less than a second is not reported.
    let lock = held(&target);
    let child = scene.publish().stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    drop(lock);
    let stderr = stderr_of(&child.wait_with_output().unwrap(), 0);
    assert!(!stderr.contains("waiting"), "{stderr}");
}

#[test]
fn a_publish_without_a_time_has_that_of_the_end_of_its_wait() {
    let mut scene = Scene::new();
    succeeds(scene.publish());
    let (dataset, target) = (scene.editions.dataset(), scene.published.path());
    let at = |time: &str| {
        let mut manifest = scene.published.manifest().unwrap();
        for part in ["history", "live", "dumps"] {
            manifest[part]["generatedAt"] = time.into();
        }
        write_file(&target.join("manifest.json"), &manifest.to_string());
    };
    let spawn = || {
        let mut publish = publish_command(dataset, target);
        publish.stderr(Stdio::piped()).spawn().unwrap()
    };
    let lock = held(target);
    let waiting = spawn();
    // The one it waits for ends later than it begins.
    thread::sleep(Duration::from_millis(1500));
    at(&UnixSeconds::now().to_string());
    drop(lock);
    stderr_of(&waiting.wait_with_output().unwrap(), 0);
    at("9999-01-01T00:00:00Z");
    let stderr = stderr_of(&spawn().wait_with_output().unwrap(), 65);
    let want = "the clock of this machine must be at least 9999-01-01T00:00:00Z, the time of the";
    assert!(stderr.contains(want), "{stderr}");
}

#[test]
fn links_that_are_changed_during_a_publish_mix_no_directories() {
    let mut scene = Scene::new();
    succeeds(scene.publish());
    let [to, from, other] = ["to", "from", "other"].map(|name| scene.dir.join(name));
    symlink(scene.published.path(), &to).unwrap();
    symlink(scene.editions.dataset(), &from).unwrap();
    fs::create_dir(&other).unwrap();
    let edition = scene.editions.turn(Change::All);
    let mut publish = publish_command(&from, &to);
    publish.args(["--force", "--generated-at", &edition.generated_at]);
    let lock = held(scene.editions.dataset());
    let mut publishing = publish.stderr(Stdio::piped()).spawn().unwrap();
    let mut waits = String::new();
    let mut stderr = BufReader::new(publishing.stderr.take().unwrap());
    stderr.read_line(&mut waits).unwrap();
    assert_eq!(waits, waits_for(scene.editions.dataset()));
    for link in [&to, &from] {
        fs::remove_file(link).unwrap();
        symlink(&other, link).unwrap();
    }
    drop(lock);
    assert!(publishing.wait().unwrap().success());
    assert!(files(&other).is_empty());
    let manifest = scene.published.manifest().unwrap();
    assert_eq!(manifest["history"]["generatedAt"], *edition.generated_at);
}
