//! The commands `keys issue`, `list`, `revoke` and `restore`.

use std::fmt::Write as _;

use serde_json::json;

use super::arguments::Arguments;
use super::error::CliError;
use super::{print, report};
use crate::calendar::UnixSeconds;
use crate::keys::{KeyAddress, KeyId, KeyPrefix, KeyRecord, KeyStore};
use crate::model::Tier;

/// The form of the operand of `revoke` and `restore`.
const ID_FORM: &str = "the <id> segment of a key, ten letters and digits";

fn store(arguments: &Arguments) -> Result<KeyStore, CliError> {
    Ok(KeyStore::new(&arguments.required_path("state")?))
}

/// Issues a key, and prints it after it is durable.
pub(super) fn issue(arguments: &Arguments) -> Result<(), CliError> {
    let store = store(arguments)?;
    let address: KeyAddress = arguments.required("address", |text| text.parse().ok())?;
    let tier = arguments.required("tier", Tier::parse)?;
    let prefix: KeyPrefix = arguments.required("key-prefix", |text| text.parse().ok())?;
    let key = store.issue(&prefix, &address, tier, UnixSeconds::now())?;
    let (id, tier) = (key.id, tier.as_str());
    print(&format!("{}\n", key.reveal())).map_err(|error| {
        error.with_suffix(&format!(
            "; the key {id} was issued but may not have been printed; `keys revoke {id}` disables it"
        ))
    })?;
    report(&format!(
        "issued the {tier} key {id} to {address}; it cannot be shown again, only its hash is stored"
    ));
    Ok(())
}

/// Lists all keys, oldest first.
pub(super) fn list(arguments: &Arguments) -> Result<(), CliError> {
    let directory = arguments.required_path("state")?;
    // A mistyped directory must not look like one without keys.
    directory
        .read_dir()
        .map_err(|error| CliError::io(&directory, &error))?;
    let records = KeyStore::new(&directory).read()?;
    if arguments.has("json") {
        let keys: serde_json::Value = records.iter().map(json_of).collect();
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

fn json_of(record: &KeyRecord) -> serde_json::Value {
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
    let id: KeyId = arguments.operand(ID_FORM)?;
    let changed = store(arguments)?.revoke(id, UnixSeconds::now())?;
    let state = if changed { "is" } else { "was already" };
    report(&format!("{id} {state} revoked"));
    Ok(())
}

/// Enables a revoked key again.
pub(super) fn restore(arguments: &Arguments) -> Result<(), CliError> {
    let id: KeyId = arguments.operand(ID_FORM)?;
    let changed = store(arguments)?.restore(id)?;
    let state = if changed {
        "is active again"
    } else {
        "was already active"
    };
    report(&format!("{id} {state}"));
    Ok(())
}
