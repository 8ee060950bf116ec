//! `/keys`: the pages of sign-up. All texts are escaped. What is allowed is decided elsewhere.

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

use super::settings::SiteSettings;
use super::templates::page;
use crate::model::FREE_KEYS_MAX;

/// The keys of an address, shown to its holder. Without `Debug`, since it holds a token and a key.
#[derive(Clone, Serialize)]
pub struct AddressKeys<'a> {
    pub address: &'a str,
    pub keys: Vec<ListedKey>,
    /// The token that the forms send back.
    pub token: &'a str,
    /// The key that was just issued, which is shown only once.
    pub issued: Option<&'a str>,
    /// The id of the key that was just revoked.
    pub revoked: Option<String>,
    /// Whether the address is a network address, which others may share.
    pub is_shared: bool,
    #[serde(skip)]
    pub service: &'a SiteSettings,
}

#[derive(Clone, Debug, Serialize)]
pub struct ListedKey {
    /// Its public part.
    pub id: String,
    pub tier: &'static str,
    pub issued: String,
    /// The time since which it is disabled.
    pub revoked: Option<String>,
}

/// Fills a template with its values and the settings of a server that these pages state.
fn keys_page(template: &str, service: &SiteSettings, values: Value) -> String {
    let settings = context! {
        contact_url => service.contact_url(),
        free_keys_max => FREE_KEYS_MAX,
        ..Value::from(Serde(service))
    };
    let notice = &service.notice;
    page(template, context! { service => settings, notice, ..values })
}

pub fn keys_closed(service: &SiteSettings) -> String {
    let keys_text = service.keys_text();
    keys_page("keys_closed.html", service, context! { keys_text })
}

/// Returns the page after a link was mailed, if the address accepts mail.
pub fn keys_mailed(service: &SiteSettings) -> String {
    keys_page("keys_mailed.html", service, context! {})
}

/// Returns the page of a request that failed. `token` is that of an address's holder, for the way
/// back.
pub fn keys_refused(message: &str, token: Option<&str>, service: &SiteSettings) -> String {
    keys_page("keys_refused.html", service, context! { message, token })
}

/// Returns the form for an e-mail address, which sends back the token.
pub fn keys_form(token: &str, service: &SiteSettings) -> String {
    keys_page("keys_form.html", service, context! { token })
}

pub fn keys_list(list: &AddressKeys<'_>) -> String {
    keys_page("keys_list.html", list.service, Value::from(Serde(list)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(active: usize, issued: Option<&str>) -> String {
        let key = |at: usize| ListedKey {
            id: format!("id{at}"),
            tier: "free",
            issued: "2026-11-21T00:00:00Z".to_owned(),
            revoked: (at >= active).then(|| "2026-11-22T00:00:00Z".to_owned()),
        };
        keys_list(&AddressKeys {
            address: "<a>@x.test",
            keys: (0..4).map(key).collect(),
            token: "p\"q",
            issued,
            revoked: None,
            is_shared: false,
            service: &SiteSettings::new("http://x.test"),
        })
    }

    #[test]
    fn only_active_keys_can_be_revoked() {
        let page = listed(2, None);
        assert!(page.contains("Keys of <bdi>&lt;a&gt;@x.test"));
        assert!(page.contains("You are using 2 of your 3 free keys"));
        assert_eq!(page.matches("value=revoke").count(), 2);
        assert_eq!(page.matches("value=issue").count(), 1);
        assert_eq!(page.matches("name=pass value=\"p&quot;q\"").count(), 3);
        assert!(!page.contains("newkey"));
        assert!(!listed(3, None).contains("value=issue"));
    }

    #[test]
    fn a_new_key_is_shown_with_an_example_request() {
        let page = listed(1, Some("im_live_a_b"));
        assert!(page.contains("id=newkey>im_live_a_b<"));
        assert!(page.contains("Bearer im_live_a_b' 'http://x.test/v1/islands?limit=2'"));
    }
}
