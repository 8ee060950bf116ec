//! `/keys`: the pages of sign-up. All texts are escaped. What is allowed is decided elsewhere.

use super::html::{Escaped, count, each, encoded, html_page};
use super::settings::SiteSettings;
use super::templates::filled;
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

fn keys_page(content: &str) -> String {
    let content = format!("<div class=text>{content}</div>");
    html_page(
        ["", "keys", "Keys", "API keys and their limits."],
        &[],
        &content,
    )
}

/// Returns the limits of all tiers, and how to get a key of each; `how` is for the free tier.
fn tiers(service: &SiteSettings, how: &str) -> String {
    let [anonymous, free, starter, pro] = service.limits.map(|limit| count(u64::from(limit)));
    let publisher = service.publisher();
    filled!("tiers.html"; anonymous, free, how, starter, pro, publisher)
}

/// Returns the limits of all tiers on a page that issues free keys.
fn tiers_here(service: &SiteSettings) -> String {
    let how = format!("on this page, up to {FREE_KEYS_MAX} per address");
    tiers(service, &how)
}

/// Returns the page of a server whose keys another server issues: `leader`, whose name is empty if it
/// is not known. `url` is its base URL.
pub fn keys_elsewhere(leader: &str, url: Option<&str>, service: &SiteSettings) -> String {
    let page = url.map_or_else(String::new, |url| format!("{url}/keys"));
    let leader = if url.is_some() { "" } else { leader };
    let (page, leader, publisher) = (Escaped(&page), Escaped(leader), service.publisher());
    let tiers = tiers(service, "on the page of the server that issues keys");
    keys_page(&filled!("keys_elsewhere.html"; page, leader, publisher, tiers))
}

/// Returns the page of a service without sign-up.
pub fn keys_closed(service: &SiteSettings) -> String {
    let publisher = service.publisher();
    let tiers = tiers(service, &format!("ask {publisher}"));
    keys_page(&filled!("keys_closed.html"; publisher, tiers))
}

/// Returns the page after a link was mailed, if the address accepts mail.
pub fn keys_mailed() -> String {
    keys_page(&filled!("keys_mailed.html";))
}

/// Returns the page of a request that failed. `token` is that of an address's holder, for the way
/// back.
pub fn keys_refused(message: &str, token: Option<&str>) -> String {
    let query = each(token, |token| format!("?pass={}", encoded(token)));
    let message = Escaped(message);
    keys_page(&filled!("keys_refused.html"; message, query))
}

/// Returns the form for an e-mail address, which sends back the token.
pub fn keys_form(token: &str, service: &SiteSettings) -> String {
    let (token, tiers) = (hidden(token), tiers_here(service));
    keys_page(&filled!("keys_form.html"; token, tiers))
}

fn hidden(token: &str) -> String {
    format!("<input type=hidden name=pass value=\"{}\">", Escaped(token))
}

/// Returns the list of an address's keys.
pub fn keys_list(list: &AddressKeys<'_>) -> String {
    let (address, base_url) = (Escaped(list.address), Escaped(&list.service.base_url));
    let key = Escaped(list.issued.unwrap_or_default());
    let revoked = Escaped(list.revoked.as_deref().unwrap_or_default());
    let is_active = |key: &&ListedKey| key.revoked.is_none() && key.tier == Tier::Free;
    let active = list.keys.iter().filter(is_active).count();
    let (limit, max) = (count(u64::from(list.service.limits[1])), FREE_KEYS_MAX);
    let shared = list.is_shared.then(|| filled!("shared_address.html";));
    let shared = shared.unwrap_or_default();
    let rows = each(&list.keys, |key| row(key, list.token));
    let token = (active < max).then(|| hidden(list.token));
    let token = token.unwrap_or_default();
    let tiers = tiers_here(list.service);
    keys_page(&filled!(
        "keys_list.html"; address, key, base_url, revoked, limit, active, max, shared, rows, token, tiers
    ))
}

fn row(key: &ListedKey, token: &str) -> String {
    let (id, tier, issued) = (Escaped(&key.id), key.tier.as_str(), key.issued);
    let status = match key.revoked {
        Some(since) => format!("revoked <small class=wide>{since}</small>"),
        None if key.tier != Tier::Free => "active".to_owned(),
        None => {
            let token = hidden(token);
            filled!("revoke.html"; id, token)
        }
    };
    format!("<tr><td><code>{id}</code><td>{tier}<td class=wide>{issued}<td>{status}")
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
