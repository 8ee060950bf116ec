//! The notice of a dataset, on every page and in every text.

use super::*;

#[test]
fn every_text_has_the_notice_of_the_dataset_in_place_of_the_general_origin() {
    let mut service = SiteSettings::new("https://x.test");
    let texts = |service: &SiteSettings| {
        let files = [
            "openapi.json",
            "objects",
            "recipes",
            "gotchas",
            "changelog",
            "llms.txt",
        ];
        let mut texts = files
            .map(|name| file(&format!("/{name}"), service))
            .to_vec();
        texts.extend([docs(service, None, &|_| None), home(service, &|_| None)]);
        texts.extend([
            keys_closed(service),
            keys_mailed(service),
            keys_form("t", service),
        ]);
        texts.push(keys_refused("m", None, service));
        texts.push(message_page(
            ("t", "m"),
            "",
            service.notice.as_deref(),
            None,
        ));
        texts
    };
    for text in texts(&service) {
        assert!(text.contains("facts from a third"), "{text}");
    }
    service.notice = Some("\"Made\" up.".to_owned());
    for text in texts(&service) {
        let forms = ["\"Made\" up.", "\\\"Made\\\" up.", "&quot;Made&quot; up."];
        assert!(forms.iter().any(|form| text.contains(form)), "{text}");
        assert!(!text.contains("facts from a third"), "{text}");
    }
}
