//! The commands `keys issue`, `list`, `revoke` and `restore`.

use std::path::PathBuf;

use serde_json::json;

use super::arguments::{Arguments, parsed};
use super::error::CliError;
use super::{print, report};
use crate::calendar::UnixSeconds;
use crate::keys::{KeyAddress, KeyId, KeyPrefix, KeyRecord, KeyStore};
use crate::model::Tier;

/// Issues a key, and prints it after it is durable.
pub(super) fn issue(arguments: &Arguments) -> Result<(), CliError> {
    let store = KeyStore::new(&arguments.required::<PathBuf>("state", parsed)?);
    let address: KeyAddress = arguments.required("address", parsed)?;
    let tier = arguments.required("tier", Tier::parse)?;
    let prefix: KeyPrefix = arguments.required("key-prefix", parsed)?;
    let key = store.issue(&prefix, &address, tier, UnixSeconds::now())?;
    let (id, tier) = (key.id, tier.as_str());
    print(&format!("{}\n", key.reveal())).map_err(|mut error| {
        let hint = format!(
            "; the key {id} was issued but may not have been printed; `keys revoke {id}` disables it"
        );
        error.message.push_str(&hint);
        error
    })?;
    report(&format!(
        "issued the {tier} key {id} to {address}; it cannot be shown again, because only its hash is stored"
    ));
    Ok(())
}

pub(super) fn list(arguments: &Arguments) -> Result<(), CliError> {
    let directory: PathBuf = arguments.required("state", parsed)?;
    // A mistyped directory must not look like one without keys.
    directory
        .read_dir()
        .map_err(|error| CliError::io(&directory, &error))?;
    let records = KeyStore::new(&directory).read()?;
    if arguments.has("json") {
        let keys: serde_json::Value = records.as_slice().iter().map(json_of).collect();
        return print(&format!("{keys:#}\n"));
    }
    let row = |id: &str, tier: &str, status: &str, issued: &str, address: &str| {
        format!("{id:<10}  {tier:<7}  {status:<7}  {issued:<20}  {address}\n")
    };
    let mut text = row("id", "tier", "status", "issued", "address");
    for record in records.as_slice() {
        let (id, issued) = (record.id.to_string(), record.issued.to_string());
        let (tier, address) = (record.tier.as_str(), record.address.as_str());
        text.push_str(&row(&id, tier, status(record), &issued, address));
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

/// Disables the key that the operand names, or enables it again. Reports its state.
pub(super) fn set_revoked(arguments: &Arguments, is_revoked: bool) -> Result<(), CliError> {
    let expected = "the <id> segment of a key, ten letters and digits";
    let id: KeyId = arguments.operand(expected, parsed)?;
    let store = KeyStore::new(&arguments.required::<PathBuf>("state", parsed)?);
    let is_change = if is_revoked {
        store.set_revoked(id, true, UnixSeconds::now())?
    } else {
        store.restore(id)?
    };
    let state = match (is_revoked, is_change) {
        (true, true) => "is revoked",
        (true, false) => "was already revoked",
        (false, true) => "is active again",
        (false, false) => "was already active",
    };
    report(&format!("{id} {state}"));
    Ok(())
}
