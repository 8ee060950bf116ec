//! [`SiteSettings`]: the settings of a server that its pages and documents state.

use serde::Serialize;

use crate::model::{FREE_KEYS_MAX, TierLimits};

/// The settings of a server that clients can see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteSettings {
    /// The public URL, without a trailing slash.
    pub base_url: String,
    pub limits: TierLimits,
    /// Whether `/keys` issues free keys.
    pub has_sign_up: bool,
    /// The publisher's e-mail address or URL.
    pub contact: Option<String>,
    /// The notice of the served dataset, such as that its data is made up.
    pub notice: Option<String>,
}

impl SiteSettings {
    /// Returns the settings of a server at `base_url` with the limits of the specification.
    pub fn new(base_url: &str) -> SiteSettings {
        SiteSettings {
            base_url: base_url.to_owned(),
            limits: TierLimits::SPECIFIED,
            has_sign_up: false,
            contact: None,
            notice: None,
        }
    }

    pub(super) fn contact_url(&self) -> Option<String> {
        let contact = self.contact.as_deref()?;
        let scheme = if is_url(contact) { "" } else { "mailto:" };
        Some(format!("{scheme}{contact}"))
    }

    /// Returns the contact in the `OpenAPI` document. The dashboard is the fallback.
    pub(super) fn openapi_contact(&self) -> serde_json::Value {
        let dashboard = format!("{}/", self.base_url);
        let contact = self.contact.as_ref().unwrap_or(&dashboard);
        let member = if is_url(contact) { "url" } else { "email" };
        serde_json::json!({"name": "The publisher", member: contact})
    }

    /// Describes how to get keys, in Markdown.
    pub(super) fn keys_text(&self) -> String {
        let contact = self.contact.as_ref().zip(self.contact_url());
        let contact = contact.map(|(contact, url)| format!("[{contact}]({url})"));
        let ask = ask_text(contact.as_deref());
        if self.has_sign_up {
            return format!(
                "Sign-up is open: `/keys` issues up to {FREE_KEYS_MAX} free keys per address. \
                 Starter and pro keys are in private beta{ask}."
            );
        }
        format!("Sign-up is closed on this server{ask}. Starter and pro keys are in private beta.")
    }

    /// Returns the message of the error at `/keys` where sign-up is closed.
    pub fn sign_up_closed(&self) -> String {
        let ask = ask_text(self.contact.as_deref());
        format!("sign-up is closed on this server{ask}")
    }
}

fn ask_text(contact: Option<&str>) -> String {
    let ask = contact.map(|contact| format!("; ask the publisher for a key: {contact}"));
    ask.unwrap_or_default()
}

/// Returns whether a contact is a URL; it is an e-mail address otherwise.
fn is_url(contact: &str) -> bool {
    contact.starts_with("http://") || contact.starts_with("https://")
}
