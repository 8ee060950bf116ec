//! `/keys`: the pages of sign-up. What may be done is decided elsewhere.

use std::fmt::{self, Write as _};

use super::frame::{Extra, Frame};
use super::html::{Escaped, encoded};

/// What a page of sign-up shows. Texts are shown as they are, none is taken for markup.
#[derive(Clone)]
pub enum KeysPage<'a> {
    /// The service gives no keys by itself.
    Closed,
    /// The form for an e-mail address.
    Ask {
        /// Goes back with the form.
        pass: &'a str,
    },
    /// A link was mailed, if the address takes mail.
    Mailed,
    /// The keys of an address.
    Held(Held<'a>),
    /// It was not done, and why.
    Refused {
        /// A sentence or two.
        message: &'a str,
        /// By which the holder of an address finds the way back to its keys, if it takes one.
        pass: Option<&'a str>,
    },
}

/// The keys of an address, for whoever has shown to hold it.
#[derive(Clone)]
pub struct Held<'a> {
    /// The address.
    pub address: &'a str,
    /// Its keys.
    pub keys: Vec<HeldKey>,
    /// Goes back with the forms.
    pub pass: &'a str,
    /// The key that was just issued. Shown this once.
    pub issued: Option<&'a str>,
    /// The id of the key that was just revoked.
    pub revoked: Option<String>,
    /// How many active free keys an address may have.
    pub free_max: usize,
    /// Whether the address is that of the network, which others may share.
    pub is_shared: bool,
    /// Requests a UTC day with a free key.
    pub free_limit: u32,
    /// The service's own address.
    pub base_url: &'a str,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct HeldKey {
    /// Its public part.
    pub id: String,
    /// What it buys.
    pub tier: &'static str,
    /// When it was issued.
    pub issued: String,
    /// Since when it is disabled.
    pub revoked: Option<String>,
}

/// Shows nothing: it holds passes and keys.
impl fmt::Debug for KeysPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeysPage")
    }
}

impl fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// A page of sign-up, in HTML.
pub fn keys(page: &KeysPage<'_>) -> String {
    let content = match page {
        KeysPage::Closed => "<h1>Keys</h1><p>This service does not issue keys online. Ask whoever runs it for one; you \
             can keep using the API without a key.</p><p>You run it? <code>island-metrics keys issue</code> makes \
             one, and <code>--signup</code> opens this page.</p><p><a href=docs>API reference</a></p>"
            .to_owned(),
        KeysPage::Ask { pass } => ask(pass),
        KeysPage::Mailed => "<h1>Check your mail</h1><p>If the address accepts mail, a link is on its way. It is \
             valid for an hour; use it to see, create and revoke your keys. Nothing there? Check your spam \
             folder, and <a href=keys>ask again</a> in a while.</p>"
            .to_owned(),
        KeysPage::Held(held) => list(held),
        KeysPage::Refused { message, pass } => {
            let query = pass.map_or_else(String::new, |pass| format!("?pass={}", encoded(pass)));
            format!(
                "<h1>That did not work</h1><p class=note role=alert>{}</p>\
                 <p><a href=\"keys{query}\">Back to the keys</a></p>",
                Escaped(message)
            )
        }
    };
    let frame = Frame {
        title: "Keys \u{2013} Island metrics",
        root: "",
        extra: Extra::Nothing,
    };
    frame.around(&content)
}

const TERMS: &str =
    "A key is free and raises your daily quota. It is shown once and stored only as a hash.";

fn ask(pass: &str) -> String {
    format!(
        "<h1>A free key</h1><p>{TERMS}</p><form method=post action=keys>{}\
         <p class=row><label for=email>E-mail</label><input id=email name=email type=email required \
         maxlength=254 autocomplete=email><button name=do value=mail>Send me a link</button></p></form>\
         <p class=soft>The link lets you see, create and revoke the keys of the address. The address \
         is kept with its keys and used for nothing else.</p>",
        hidden(pass)
    )
}

fn hidden(pass: &str) -> String {
    format!("<input type=hidden name=pass value=\"{}\">", Escaped(pass))
}

fn list(held: &Held<'_>) -> String {
    let address = Escaped(held.address);
    let mut out = format!("<h1>Keys of <bdi>{address}</bdi></h1>");
    if let Some(key) = held.issued {
        let _ = write!(
            out,
            "<div class=note role=status><p>Your new key. It is not shown again:</p><pre class=secret id=newkey>{0}</pre>\
             <pre>curl -H 'Authorization: Bearer {0}' '{1}/v1/islands?limit=2'</pre>\
             <p>Next: <a href=recipes>recipes</a>, which read it from <code>ISLAND_METRICS_KEY</code>, and \
             <a href=docs>all endpoints</a>.</p></div>",
            Escaped(key),
            Escaped(held.base_url)
        );
    }
    if let Some(id) = &held.revoked {
        let _ = write!(
            out,
            "<p class=note role=status>Key {} has been revoked.</p>",
            Escaped(id)
        );
    }
    let active = |key: &&HeldKey| key.revoked.is_none() && key.tier == "free";
    let active = held.keys.iter().filter(active).count();
    let _ = write!(
        out,
        "<p>{TERMS} Each allows {} requests per UTC day; {active} of {} are in use.</p>",
        super::html::Count(Some(held.free_limit.into())),
        held.free_max
    );
    if held.is_shared {
        out.push_str(
            "<p class=soft>Keys belong to the address that you come from. Anyone else using it can see \
             their ids and revoke them; the keys themselves are never shown again.</p>",
        );
    }
    if !held.keys.is_empty() {
        out.push_str("<table><thead><tr><th>Id<th>Tier<th class=wide>Issued<th>Status</thead>");
        for key in &held.keys {
            row(&mut out, key, held.pass);
        }
        out.push_str("</table>");
    }
    if active < held.free_max {
        let _ = write!(
            out,
            "<form method=post action=keys>{}<p><button name=do value=issue>Create a key</button></p></form>",
            hidden(held.pass)
        );
    } else {
        out.push_str("<p>Revoke one to make room for another.</p>");
    }
    out
}

fn row(out: &mut String, key: &HeldKey, pass: &str) {
    let id = Escaped(&key.id);
    let _ = write!(
        out,
        "<tr><td><code>{id}</code><td>{}<td class=wide>{}<td>",
        key.tier,
        Escaped(&key.issued)
    );
    match &key.revoked {
        Some(since) => {
            let _ = write!(out, "revoked <small class=wide>{}</small>", Escaped(since));
        }
        None if key.tier != "free" => out.push_str("active"),
        None => {
            let _ = write!(
                out,
                "<form method=post action=keys>{}<input type=hidden name=id value=\"{id}\">\
                 <button name=do value=revoke aria-label=\"Revoke {id}\">Revoke</button></form>",
                hidden(pass)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(active: usize, issued: Option<&str>) -> String {
        let key = |at: usize| HeldKey {
            id: format!("id{at}"),
            tier: "free",
            issued: "2026-11-21T00:00:00Z".to_owned(),
            revoked: (at >= active).then(|| "2026-11-22T00:00:00Z".to_owned()),
        };
        keys(&KeysPage::Held(Held {
            address: "<a>@x.test",
            keys: (0..4).map(key).collect(),
            pass: "p\"q",
            issued,
            revoked: None,
            free_max: 3,
            is_shared: false,
            free_limit: 1000,
            base_url: "http://x.test",
        }))
    }

    #[test]
    fn keys_are_listed_and_only_active_ones_can_be_revoked() {
        let page = held(2, None);
        assert!(page.contains("Keys of <bdi>&lt;a&gt;@x.test"));
        assert!(page.contains("Each allows 1,000 requests per UTC day; 2 of 3 are in use"));
        assert_eq!(page.matches("value=revoke").count(), 2);
        assert_eq!(page.matches("value=issue").count(), 1);
        assert_eq!(page.matches("name=pass value=\"p&quot;q\"").count(), 3);
        assert!(!page.contains("newkey"));
        assert!(!held(3, None).contains("value=issue"));
    }

    #[test]
    fn a_new_key_is_shown_with_a_line_to_try() {
        let page = held(1, Some("im_live_a_b"));
        assert!(page.contains("id=newkey>im_live_a_b<"));
        assert!(page.contains("Bearer im_live_a_b' 'http://x.test/v1/islands?limit=2'"));
    }
}
