//! `/keys`: the pages of sign-up. All texts are escaped. What is allowed is decided elsewhere.

use minijinja::{Value, context};

use super::settings::SiteSettings;
use super::templates::page;
use crate::calendar::UnixSeconds;
use crate::model::{FREE_KEYS_MAX, Tier};

/// The keys of an address, shown to its holder. Without `Debug`, since it holds a token and a key.
#[derive(Clone)]
pub struct AddressKeys<'a> {
    /// The address.
    pub address: &'a str,
    /// Its keys.
    pub keys: Vec<ListedKey>,
    /// The token that the forms send back.
    pub token: &'a str,
    /// The key that was just issued, which is shown only once.
    pub issued: Option<&'a str>,
    /// The id of the key that was just revoked.
    pub revoked: Option<String>,
    /// Whether the address is a network address, which others may share.
    pub is_shared: bool,
    /// The settings of the server.
    pub service: &'a SiteSettings,
}

/// A key in the list of its address.
#[derive(Clone, Debug)]
pub struct ListedKey {
    /// Its public part.
    pub id: String,
    /// Its tier.
    pub tier: Tier,
    /// The time of issue.
    pub issued: UnixSeconds,
    /// The time since which it is disabled.
    pub revoked: Option<UnixSeconds>,
}

/// Returns the settings of a server that these pages state.
fn settings(service: &SiteSettings) -> Value {
    context! {
        limits => service.limits,
        base_url => &service.base_url,
        contact_url => service.contact_url(),
        free_keys_max => FREE_KEYS_MAX,
    }
}

/// Returns the page of a server whose keys another server issues: `leader`, whose name is empty if it
/// is not known. `url` is its base URL.
pub fn keys_elsewhere(leader: &str, url: Option<&str>, service: &SiteSettings) -> String {
    let service = settings(service);
    page("keys_elsewhere.html", context! { leader, url, service })
}

/// Returns the page of a service without sign-up.
pub fn keys_closed(service: &SiteSettings) -> String {
    page(
        "keys_closed.html",
        context! { service => settings(service) },
    )
}

/// Returns the page after a link was mailed, if the address accepts mail.
pub fn keys_mailed() -> String {
    page("keys_mailed.html", context! {})
}

/// Returns the page of a request that failed. `token` is that of an address's holder, for the way
/// back.
pub fn keys_refused(message: &str, token: Option<&str>) -> String {
    page("keys_refused.html", context! { message, token })
}

/// Returns the form for an e-mail address, which sends back the token.
pub fn keys_form(token: &str, service: &SiteSettings) -> String {
    let service = settings(service);
    page("keys_form.html", context! { token, service })
}

/// Returns the list of an address's keys.
pub fn keys_list(list: &AddressKeys<'_>) -> String {
    let is_active = |key: &ListedKey| key.revoked.is_none() && key.tier == Tier::Free;
    let keys = list.keys.iter().map(|key| {
        context! {
            id => &key.id,
            tier => key.tier.as_str(),
            issued => key.issued.to_string(),
            revoked => key.revoked.map(|time| time.to_string()),
            is_active => is_active(key),
        }
    });
    let values = context! {
        address => list.address,
        keys => keys.collect::<Value>(),
        active => list.keys.iter().filter(|key| is_active(key)).count(),
        token => list.token,
        issued => list.issued,
        revoked => list.revoked.as_deref(),
        is_shared => list.is_shared,
        service => settings(list.service),
    };
    page("keys_list.html", values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(active: usize, issued: Option<&str>) -> String {
        let key = |at: usize| ListedKey {
            id: format!("id{at}"),
            tier: Tier::Free,
            issued: UnixSeconds(1_795_219_200),
            revoked: (at >= active).then_some(UnixSeconds(1_795_305_600)),
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
    fn a_page_of_another_server_is_linked_or_named() {
        let service = SiteSettings::new("http://x.test");
        let page = keys_elsewhere("<host>", Some("https://lead.test/api"), &service);
        assert!(
            page.contains("<a href=\"https://lead.test/api/keys\">https://lead.test/api/keys</a>")
        );
        assert!(!page.contains("host&gt;"));
        let page = keys_elsewhere("<host>", None, &service);
        assert!(page.contains("The server <code>&lt;host&gt;</code> issues them"));
        let page = keys_elsewhere("", None, &service);
        assert!(
            page.contains("Open this page at the public address")
                && !page.contains("<code></code>")
        );
        assert!(!page.contains("<form"));
    }

    #[test]
    fn a_new_key_is_shown_with_an_example_request() {
        let page = listed(1, Some("im_live_a_b"));
        assert!(page.contains("id=newkey>im_live_a_b<"));
        assert!(page.contains("Bearer im_live_a_b' 'http://x.test/v1/islands?limit=2'"));
    }
}
