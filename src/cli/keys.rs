//! The commands `keys issue`, `list`, `revoke` and `restore`.

use serde_json::json;

use super::arguments::Arguments;
use super::error::CliError;
use super::{print, report};
use crate::calendar::UnixSeconds;
use crate::keys::{KeyAddress, KeyId, KeyPrefix, KeyRecord, KeyStore};
use crate::model::Tier;

/// Issues a key, and prints it after it is durable.
pub(super) fn issue(arguments: &Arguments) -> Result<(), CliError> {
    let store = KeyStore::new(&arguments.required_path("state")?);
    let address: KeyAddress = arguments.required("address", |text| text.parse().ok())?;
    let tier = arguments.required("tier", Tier::parse)?;
    let prefix: KeyPrefix = arguments.required("key-prefix", |text| text.parse().ok())?;
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

/// Lists all keys, oldest first.
pub(super) fn list(arguments: &Arguments) -> Result<(), CliError> {
    let directory = arguments.required_path("state")?;
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

/// Disables a key.
pub(super) fn revoke(arguments: &Arguments) -> Result<(), CliError> {
    let states = ["is revoked", "was already revoked"];
    set_status(arguments, Some(UnixSeconds::now()), states)
}

/// Enables a revoked key again.
pub(super) fn restore(arguments: &Arguments) -> Result<(), CliError> {
    let states = ["is active again", "was already active"];
    set_status(arguments, None, states)
}

/// Changes the status of the key that the operand names, and reports its state: the first text, or the
/// second one if nothing had to be changed.
fn set_status(
    arguments: &Arguments,
    revoked: Option<UnixSeconds>,
    [changed, unchanged]: [&str; 2],
) -> Result<(), CliError> {
    let expected = "the <id> segment of a key, ten letters and digits";
    let id: KeyId = arguments.operand(expected, |word| word.parse().ok())?;
    let store = KeyStore::new(&arguments.required_path("state")?);
    let state = if store.set_revoked(id, revoked)? {
        changed
    } else {
        unchanged
    };
    report(&format!("{id} {state}"));
    Ok(())
}
