//! `/keys`: the pages of sign-up. All texts are escaped. What is allowed is decided elsewhere.

use super::html::{Escaped, count, each, encoded, page, wrapped};
use crate::calendar::UnixSeconds;
use crate::model::Tier;

const TERMS: &str =
    "A key is free and raises your daily quota. It is shown once and stored only as a hash.";

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
    /// Maximum number of active free keys per address.
    pub free_max: usize,
    /// Whether the address is a network address, which others may share.
    pub is_shared: bool,
    /// Requests per UTC day with a free key.
    pub free_limit: u32,
    /// The service's own address.
    pub base_url: &'a str,
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
    page("Keys \u{2013} Island metrics", "", &[], content)
}

/// Returns the page of a service without sign-up.
pub fn keys_closed() -> String {
    keys_page(
        "<h1>Keys</h1><p>This service does not issue keys online. Ask whoever runs it for one; you \
         can keep using the API without a key.</p><p>You run it? <code>island-metrics keys issue</code> makes \
         one, and <code>--signup</code> opens this page.</p><p><a href=docs>API reference</a></p>",
    )
}

/// Returns the page after a link was mailed, if the address accepts mail.
pub fn keys_mailed() -> String {
    keys_page(
        "<h1>Check your mail</h1><p>If the address accepts mail, a link is on its way. It is \
         valid for an hour; use it to see, create and revoke your keys. Nothing there? Check your spam \
         folder, and <a href=keys>ask again</a> in a while.</p>",
    )
}

/// Returns the page of a request that failed. `token` is that of an address's holder, for the way
/// back.
pub fn keys_refused(message: &str, token: Option<&str>) -> String {
    let query = each(token, |token| format!("?pass={}", encoded(token)));
    let message = Escaped(message);
    keys_page(&format!(
        "<h1>That did not work</h1><p class=note role=alert>{message}</p>\
         <p><a href=\"keys{query}\">Back to the keys</a></p>"
    ))
}

/// Returns the form for an e-mail address, which sends back the token.
pub fn keys_form(token: &str) -> String {
    let token = hidden(token);
    keys_page(&format!(
        "<h1>A free key</h1><p>{TERMS}</p><form method=post action=keys>{token}\
         <p class=row><label for=email>E-mail</label><input id=email name=email type=email required \
         maxlength=254 autocomplete=email><button name=do value=mail>Send me a link</button></p></form>\
         <p class=soft>The link lets you see, create and revoke the keys of the address. The address \
         is kept with its keys and used for nothing else.</p>"
    ))
}

fn hidden(token: &str) -> String {
    format!("<input type=hidden name=pass value=\"{}\">", Escaped(token))
}

/// Returns the list of an address's keys.
pub fn keys_list(list: &AddressKeys<'_>) -> String {
    let (address, base_url) = (Escaped(list.address), Escaped(list.base_url));
    let issued = each(list.issued, |key| {
        let key = Escaped(key);
        format!(
            "<div class=note role=status><p>Your new key. It is not shown again:</p><pre class=secret id=newkey>{key}</pre>\
             <pre>curl -H 'Authorization: Bearer {key}' '{base_url}/v1/islands?limit=2'</pre>\
             <p>Next: <a href=recipes>recipes</a>, which read it from <code>ISLAND_METRICS_KEY</code>, and \
             <a href=docs>all endpoints</a>.</p></div>"
        )
    });
    let revoked = each(&list.revoked, |id| {
        let id = Escaped(id);
        format!("<p class=note role=status>Key {id} has been revoked.</p>")
    });
    let is_active = |key: &&ListedKey| key.revoked.is_none() && key.tier == Tier::Free;
    let active = list.keys.iter().filter(is_active).count();
    let (limit, max) = (count(u64::from(list.free_limit)), list.free_max);
    let shared = if list.is_shared {
        "<p class=soft>Keys belong to the address that you come from. Anyone else using it can see \
         their ids and revoke them; the keys themselves are never shown again.</p>"
    } else {
        ""
    };
    let rows = each(&list.keys, |key| row(key, list.token));
    let head = "<table><thead><tr><th>Id<th>Tier<th class=wide>Issued<th>Status</thead>";
    let table = wrapped(head, &rows, "</table>");
    let form = if active < max {
        let token = hidden(list.token);
        format!(
            "<form method=post action=keys>{token}<p><button name=do value=issue>Create a key</button></p></form>"
        )
    } else {
        "<p>Revoke one to make room for another.</p>".to_owned()
    };
    keys_page(&format!(
        "<h1>Keys of <bdi>{address}</bdi></h1>{issued}{revoked}\
         <p>{TERMS} Each allows {limit} requests per UTC day; {active} of {max} are in use.</p>{shared}{table}{form}"
    ))
}

fn row(key: &ListedKey, token: &str) -> String {
    let (id, tier, issued) = (Escaped(&key.id), key.tier.as_str(), key.issued);
    let status = match key.revoked {
        Some(since) => format!("revoked <small class=wide>{since}</small>"),
        None if key.tier != Tier::Free => "active".to_owned(),
        None => {
            let token = hidden(token);
            format!(
                "<form method=post action=keys>{token}<input type=hidden name=id value=\"{id}\">\
                 <button name=do value=revoke aria-label=\"Revoke {id}\">Revoke</button></form>"
            )
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
            free_max: 3,
            is_shared: false,
            free_limit: 1000,
            base_url: "http://x.test",
        })
    }

    #[test]
    fn only_active_keys_can_be_revoked() {
        let page = listed(2, None);
        assert!(page.contains("Keys of <bdi>&lt;a&gt;@x.test"));
        assert!(page.contains("Each allows 1,000 requests per UTC day; 2 of 3 are in use"));
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
