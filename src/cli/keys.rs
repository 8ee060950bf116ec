//! `keys issue`, `list`, `revoke` and `restore`.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use super::arguments::Arguments;
use super::error::CliError;
use super::{print, report};
use crate::calendar::UnixSeconds;
use crate::keys::{KeyAddress, KeyId, KeyPrefix, KeyRecord, KeyStore};
use crate::model::Tier;

const WANT_ID: &str = "the <id> segment of a key, ten letters and digits";

fn store(arguments: &Arguments) -> Result<KeyStore, CliError> {
    let directory: PathBuf = arguments.required("state", "a directory")?;
    Ok(KeyStore::new(&directory))
}

/// Issues a key, and prints it once it is durable.
pub(super) fn issue(arguments: &Arguments) -> Result<(), CliError> {
    let store = store(arguments)?;
    let address: KeyAddress =
        arguments.required("address", "an e-mail or IP address, as ann@example.com")?;
    let name: String = arguments.required("tier", "a tier")?;
    let tier = Tier::parse(&name).ok_or_else(|| {
        let place = arguments.place("tier");
        arguments.bad_value(format!("{place} is {name:?}; want free, starter or pro"))
    })?;
    let prefix: KeyPrefix = arguments.required("key-prefix", "1 to 16 letters and digits")?;
    let now = UnixSeconds::now();
    let key = store.issue(&prefix, &address, tier, now)?;
    let id = key.id;
    print(&format!("{}\n", key.reveal())).map_err(|failure| {
        failure.and(format!(
            "the key {id} was issued but may not have been printed; `keys revoke {id}` disables it"
        ))
    })?;
    let tier = tier.as_str();
    report(&format!(
        "issued the {tier} key {id} to {address}; it is shown this once and stored only as a hash"
    ));
    Ok(())
}

/// Lists all keys, the oldest first.
pub(super) fn list(arguments: &Arguments) -> Result<(), CliError> {
    let directory: PathBuf = arguments.required("state", "a directory")?;
    // A mistyped directory should not read as one without keys.
    directory
        .read_dir()
        .map_err(|error| CliError::io(&directory, &error))?;
    let records = KeyStore::new(&directory).read()?;
    if arguments.has("json") {
        let keys: serde_json::Value = records.iter().map(shown).collect();
        return print(&format!("{keys:#}\n"));
    }
    let mut text = format!(
        "{:<10}  {:<7}  {:<7}  {:<20}  address\n",
        "id", "tier", "status", "issued"
    );
    for record in records.iter() {
        let (id, issued) = (record.id.to_string(), record.issued.to_string());
        let (tier, status) = (record.tier.as_str(), status(record));
        let address = &record.address;
        let _ = writeln!(
            text,
            "{id:<10}  {tier:<7}  {status:<7}  {issued:<20}  {address}"
        );
    }
    print(&text)
}

fn status(record: &KeyRecord) -> &'static str {
    if record.revoked.is_some() {
        "revoked"
    } else {
        "active"
    }
}

fn shown(record: &KeyRecord) -> serde_json::Value {
    json!({
        "id": record.id.to_string(),
        "tier": record.tier.as_str(),
        "status": status(record),
        "address": record.address.as_str(),
        "issuedAt": record.issued.to_string(),
        "revokedAt": record.revoked.map(|at| at.to_string()),
    })
}

/// Disables a key.
pub(super) fn revoke(arguments: &Arguments) -> Result<(), CliError> {
    let id: KeyId = arguments.operand(WANT_ID)?;
    let changed = store(arguments)?.revoke(id, UnixSeconds::now())?;
    report(&format!(
        "{id} {}",
        if changed {
            "is revoked"
        } else {
            "was revoked before"
        }
    ));
    Ok(())
}

/// Makes a disabled key active again.
pub(super) fn restore(arguments: &Arguments) -> Result<(), CliError> {
    let id: KeyId = arguments.operand(WANT_ID)?;
    let changed = store(arguments)?.restore(id)?;
    report(&format!(
        "{id} {}",
        if changed {
            "is active again"
        } else {
            "was active before"
        }
    ));
    Ok(())
}
