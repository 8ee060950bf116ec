//! HTML pages: headers, rate limits, and the same content as the API.

use crate::cli::table;
use crate::dump_files::some_files;
use crate::dumps;
use crate::prelude::*;

const HTML: &str = "text/html; charset=utf-8";
/// Content types, and the pages of each.
const PAGES: &str = "
text/html; charset=utf-8 | / /docs /objects /recipes /gotchas /changelog /live
text/html; charset=utf-8 | /islands /islands?createdIn=&tag=pvp&sort=plays&order=asc
text/html; charset=utf-8 | /islands/2708-3623-7025 /islands/2708-3623-7025?metric=retentionD1
text/html; charset=utf-8 | /creators /creators/ruby.gg65 /rankings /rankings/2026-11-19 /new/2026-11-07
text/markdown; charset=utf-8 | /llms.txt
text/plain; charset=utf-8 | /robots.txt
application/xml | /sitemap.xml
text/css; charset=utf-8 | /assets/style.css /assets/docs.css
text/javascript; charset=utf-8 | /assets/site.js /assets/docs.js /assets/charts.js
image/svg+xml | /favicon.ico /assets/icon.svg
";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

fn sample() -> (Server, Client) {
    let server = Server::start(&["--limit-anonymous", "5"]);
    let client = server.connect();
    (server, client)
}

/// Pages with their content types.
fn pages() -> impl Iterator<Item = (&'static str, &'static str)> {
    let pages = table(PAGES).map(|(kind, pages)| (kind, words(pages)));
    pages.flat_map(|(kind, pages)| pages.into_iter().map(move |page| (page, kind)))
}

#[test]
fn pages_use_no_quota_and_are_revalidated_by_etag() {
    let (_server, mut client) = sample();
    for (page, kind) in pages() {
        let plain = client.get(page);
        assert_eq!((plain.status, plain.left()), (200, 5), "{page}");
        assert_eq!(plain.expect("content-security-policy"), POLICY, "{page}");
        assert_eq!(plain.expect("x-content-type-options"), "nosniff");
        assert_eq!(plain.expect("referrer-policy"), "strict-origin");
        assert_eq!(plain.expect("access-control-allow-origin"), "*");
        let gzip = client.get_coded(page, true);
        // A text of one line would not be smaller.
        if page != "/robots.txt" {
            assert_eq!(gzip.expect("content-encoding"), "gzip", "{page}");
            assert_ne!(gzip.expect("etag"), plain.expect("etag"));
        }
        assert_eq!(plain.expect("content-type"), kind);
        assert_eq!(gzip.expect("content-type"), kind);
        let known = client.request("GET", page, &[("If-None-Match", plain.expect("etag"))]);
        assert_eq!((known.status, known.body.len()), (304, 0), "{page}");
        assert!(known.header("content-type").is_none());
        let head = client.request("HEAD", page, &[]);
        assert_eq!(head.expect("content-length"), plain.body.len().to_string());
        assert_eq!(head.expect("etag"), plain.expect("etag"), "{page}");
        assert_eq!(client.request("POST", page, &[]).status, 405);
    }
}

#[test]
fn nothing_on_a_page_is_inline_or_from_elsewhere() {
    let (_server, mut client) = sample();
    for (page, kind) in pages() {
        if kind != HTML {
            continue;
        }
        let reply = client.get(page);
        let text = reply.text();
        let mut assets = 0;
        for inline in ["<script>", "<style", " style=", " onclick", "javascript:"] {
            assert!(!text.contains(inline), "{inline} on {page}");
        }
        // Texts of recipes have no markup of their own.
        for link in text
            .split("src=\"")
            .skip(1)
            .chain(text.split("<link rel=stylesheet href=\"").skip(1))
        {
            let address = link.split('"').next().unwrap();
            let path = format!("/{}", address.trim_start_matches("../"));
            assert_eq!(client.get(&path).status, 200, "{address} on {page}");
            assets += 1;
        }
        assert!(assets > 0, "{page} has a style");
        has(text, "creativecommons.org/licenses/by/4.0");
        // Pages have the notice of the dataset in place of the general one.
        assert!(
            !text.contains("not affiliated with that third party"),
            "{page}"
        );
        let notice = "<main id=main><p class=note>This is not real data: ";
        assert!(text.contains(notice), "{page}");
    }
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    for page in words(
        "/ /islands?tag=pvp /islands?q=nothing%20has%20this /islands/2708-3623-7025 \
         /creators /creators/ruby.gg65 /rankings /rankings/2026-11-19 /new/2026-11-07 /nothing \
         /docs /objects /recipes /gotchas /changelog /keys",
    ) {
        // Rendering pages is rate-limited.
        let (_server, mut client) = sample();
        let reply = client.request("GET", page, &[("Accept", "text/html")]);
        let mut rendered = 0;
        for link in reply.text().split("href=").skip(1) {
            let address = link
                .trim_start_matches('"')
                .split(['"', '>', ' '])
                .next()
                .unwrap();
            let address = address.split('#').next().unwrap().replace("&amp;", "&");
            let path = address.strip_prefix("../").unwrap_or(&address);
            let path = path.trim_start_matches("./");
            if path.is_empty() || path.starts_with("http") {
                continue;
            }
            // A few are enough.
            let is_rendered = ["islands", "creators", "rankings", "new"];
            rendered += usize::from(is_rendered.iter().any(|start| path.starts_with(start)));
            if rendered > 40 {
                continue;
            }
            let is_deep = page.matches('/').count() > 1;
            // The links to other metrics name the page itself.
            let is_on_page = path.starts_with("2708-");
            assert!(
                address.starts_with("../") == is_deep || is_on_page,
                "{address} on {page}"
            );
            let folder = if is_on_page { "islands/" } else { "" };
            let target = format!("/{folder}{path}");
            let reply = client.request("GET", &target, &[("Accept", "text/html")]);
            assert_eq!(reply.status, 200, "{address} on {page}");
        }
    }
}

#[test]
fn a_browser_gets_an_html_page_for_missing_resources() {
    let (_server, mut client) = sample();
    let dir = TempDir::new();
    let none = dir.join("none");
    let empty = Server::start(&words(&format!(
        "--limit-anonymous 5 --published {}",
        none.display()
    )));
    let mut empty = empty.connect();
    let browser = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let deepest = "/a".repeat(8);
    for (target, status, root, words) in [
        ("/dumps/", 503, "../", "No dumps have been published"),
        ("/dumps", 503, "", "No dumps have been published"),
        ("/islands?limit=%3Cb%3E", 400, "", "&lt;b&gt;"),
        ("/nothing", 404, "", "<h1>Not found</h1>"),
        ("/islands/x", 400, "../", "code"),
        ("/a/b//c", 404, "../../../", "<h1>Not found</h1>"),
        (&deepest, 404, "../../../../../../../", "<h1>Not found</h1>"),
    ] {
        let client = if status == 503 {
            &mut empty
        } else {
            &mut client
        };
        let page = client.request("GET", target, &browser);
        assert_eq!(page.status, status, "{target}");
        assert_eq!(page.expect("content-type"), "text/html; charset=utf-8");
        assert_eq!(page.expect("cache-control"), "no-store");
        assert_eq!(page.expect("content-security-policy"), POLICY);
        assert_eq!(page.header("retry-after").is_some(), status == 503);
        let text = page.text();
        assert!(text.contains(words), "{target}: {text}");
        assert!(text.contains(&format!("href=\"{root}docs\"")), "{target}");
        assert_eq!(page.left(), 5);
        // A client without a preference gets the error of the API.
        for accept in [&[][..], &[("Accept", "*/*")]] {
            let reply = client.request("GET", target, accept);
            assert_eq!(reply.status, status, "{target}");
            assert_eq!(reply.expect("content-type"), "application/json");
        }
    }
    for target in [
        "/v1/nothing",
        "/v1/islands?limit=0",
        "/v1x",
        &(deepest + "/a"),
    ] {
        let reply = client.request("GET", target, &browser);
        let is_json = reply.expect("content-type") == "application/json";
        assert_eq!(is_json, target != "/v1x", "{target}");
    }
}

#[test]
fn every_error_outside_the_api_is_a_page_for_browsers() {
    let files = some_files();
    let (_dir, server) = dumps::serve(&files);
    let mut client = server.connect();
    let file = format!("/dumps/{}", files.keys().next().unwrap());
    for (method, target, header, status, line) in [
        (
            "DELETE",
            "/docs",
            ("Accept", "*/*"),
            405,
            "allow: GET, HEAD, OPTIONS",
        ),
        ("GET", "/docs", ("Transfer-Encoding", "chunked"), 400, ""),
        ("GET", &file, ("If-Match", "\"x\""), 412, ""),
        (
            "GET",
            &file,
            ("Range", "bytes=99999999-"),
            416,
            "content-range: bytes */",
        ),
    ] {
        for (accept, content_type) in [("text/html", HTML), ("*/*", "application/json")] {
            let headers = [("Accept", accept), header];
            let headers = &headers[..if header.0 == "Accept" { 1 } else { 2 }];
            let reply = server.connect().request(method, target, headers);
            assert_eq!(reply.status, status, "{target}");
            assert_eq!(reply.expect("content-type"), content_type, "{target}");
            let (name, value) = line
                .split_once(": ")
                .unwrap_or(("cache-control", "no-store"));
            assert!(reply.expect(name).starts_with(value), "{target}");
        }
    }
    let in_api = client.request("DELETE", "/v1", &[("Accept", "text/html")]);
    assert_eq!(in_api.expect("content-type"), "application/json");
}

#[test]
fn the_dumps_are_a_page_for_browsers_and_an_index_for_other_clients() {
    let files = some_files();
    let (_dir, server) = dumps::serve(&files);
    let mut client = server.connect();
    let browser = [("Accept", "text/html,*/*;q=0.8")];
    for (target, base) in [("/dumps/", "/dumps/"), ("/dumps", "/")] {
        let page = client.request("GET", target, &browser);
        assert_eq!(page.expect("content-type"), "text/html; charset=utf-8");
        assert_eq!(page.expect("content-security-policy"), POLICY);
        assert!(page.expect("vary").starts_with("Accept, "));
        let known = [browser[0], ("If-None-Match", page.expect("etag"))];
        assert_eq!(client.request("GET", target, &known).status, 304);
        for (name, bytes) in &files {
            let link = if base == "/" {
                format!("dumps/{name}")
            } else {
                name.clone()
            };
            assert!(page.text().contains(&format!("href=\"{link}\"")), "{name}");
            let file = client.request("GET", &format!("{base}{link}"), &browser);
            assert!(file.body == *bytes, "{name}");
        }
        let index = client.get(target);
        assert_eq!(index.expect("content-type"), "application/json");
        assert_eq!(
            index.expect("vary"),
            "Accept, Accept-Encoding",
            "caches must not use it for all clients"
        );
    }
    // By its name the index is JSON for browsers too, also percent-encoded.
    for target in ["/dumps/index.json", "/dumps/index%2Ejson"] {
        let index = client.request("GET", target, &browser);
        assert_eq!(index.expect("content-type"), "application/json");
        assert_eq!(index.expect("vary"), "Accept-Encoding");
    }
    let fast = (0..200).find_map(|_| {
        let page = client.request("GET", "/dumps/", &browser);
        (page.status != 200).then_some(page.status)
    });
    assert_eq!(fast, Some(429));
}

#[test]
fn pages_show_what_the_api_says() {
    let (_server, mut client) = sample();
    let home = client.get("/");
    let ranking = client.get("/v1/rankings/latest").json();
    let entries = ranking["ranking"].as_array().unwrap();
    let table = home.text().split("<tbody>").nth(1).unwrap();
    let rows = table
        .split("</table>")
        .next()
        .unwrap()
        .split("<tr>")
        .skip(1);
    assert_eq!(rows.clone().count(), entries.len());
    for (entry, row) in entries.iter().zip(rows) {
        let [code, title] = ["code", "title"].map(|name| entry[name].as_str().unwrap());
        let link = format!("<a href=\"islands/{code}\"><bdi>{title}</bdi></a>");
        has(row, &link);
        // Numbers above 999 have separators.
        let peak = format!(">{}", entry["peakCCU"]);
        assert!(row.replace(',', "").trim_end().ends_with(&peak), "{row}");
    }
    let link = "<a href=live>The hundred most played islands</a>";
    has(home.text(), link);
    has(client.get("/live").text(), "<h1>Most played now</h1>");
    let intraday = client.get("/v1/live/intraday").json();
    let points = intraday["points"].as_array().unwrap();
    let values: Vec<String> = points.iter().map(|point| point[1].to_string()).collect();
    // The sample's curve has no gaps.
    let values = format!("data-values=\"{}\"", values.join(","));
    has(home.text(), &values);
    let code = ranking["ranking"][0]["code"].as_str().unwrap();
    let ccu = client.get(&format!("/v1/islands/{code}/ccu")).json();
    let page = client.get(&format!("/islands/{code}"));
    let (_, rest) = page.text().rsplit_once("data-values=\"").unwrap();
    let shown: Vec<&str> = rest
        .split('"')
        .next()
        .unwrap()
        .split(',')
        .filter(|peak| !peak.is_empty())
        .collect();
    let peaks = ccu["ccu"].as_array().unwrap().iter();
    assert!(peaks.map(|peak| peak[1].to_string()).eq(shown));
}

#[test]
fn rendered_pages_are_rate_limited() {
    let server = Server::start(&["--limit-anonymous", "5", "--workers", "2"]);
    let page = "/islands/2708-3623-7025";
    // On any worker.
    let many = (0..20).any(|_| {
        let mut client = server.connect();
        (0..10).any(|_| client.get(page).status == 429)
    });
    assert!(many, "two hundred at once are too many");
    let refused = |accept: &str| {
        // A page may be allowed again meanwhile.
        let mut replies =
            (0..20).map(|_| server.connect().request("GET", page, &[("Accept", accept)]));
        let refused = replies.find(|reply| reply.status == 429).expect("refused");
        assert!(refused.number("retry-after") <= 5);
        refused
    };
    let html = refused("text/html");
    assert_eq!(html.expect("content-type"), "text/html; charset=utf-8");
    assert!(html.text().contains("href=\"../assets/style.css\""));
    assert_eq!(refused("*/*").json()["error"]["code"], "rate_limited");
    // Stored pages are not limited, and the API has its own limit.
    let mut client = server.connect();
    for target in ["/", "/docs", "/v1"] {
        assert_eq!(client.get(target).status, 200, "{target}");
    }
}

#[test]
fn a_search_page_shows_at_most_50_islands() {
    let (_server, mut client) = sample();
    let page = client.get("/islands?limit=200");
    assert_eq!(page.text().matches("<a href=\"islands/").count(), 50);
    let next = "rel=next href=\"islands?offset=50\"";
    assert!(page.text().contains(next), "{}", page.text());
    assert_eq!(client.get("/islands?q=%ff").status, 400);
    assert_eq!(client.get("/islands?utm_source=x").status, 200);
    assert_eq!(client.get("/?utm_source=x").status, 200);
}

#[test]
fn llms_txt_describes_the_whole_api() {
    let (server, mut client) = sample();
    let text = client.get("/llms.txt");
    assert_eq!(text.expect("content-type"), "text/markdown; charset=utf-8");
    let base = format!("http://{}", server.addr());
    has(text.text(), &format!("Base URL: {base}"));
    has(client.get("/recipes").text(), &base);
}

/// The API's own rows, in the order in which a page links to them.
#[track_caller]
fn assert_lists(page: &Reply, rows: &Value, (name, folder): (&str, &str)) {
    let rows = rows.as_array().unwrap().iter();
    let want: Vec<&str> = rows.map(|row| row[name].as_str().unwrap()).collect();
    let text = page.text();
    let (_, table) = text.split_once("<tbody>").unwrap();
    let links = table.split("<tr><td").skip(1);
    let found: Vec<&str> = links
        .map(|row| row.split_once(folder).unwrap().1.split('"').next().unwrap())
        .collect();
    assert_eq!(found, want);
}

#[test]
fn lists_are_browsed_as_the_api_sorts_and_filters_them() {
    let server = Server::start(&[]);
    let (mut client, mut api) = (server.connect(), server.connect());
    for query in parts("|?sort=plays&order=asc|?tag=pvp&offset=10|?createdIn=uefn&q=a|?limit=7") {
        let page = client.get(&format!("/islands{query}"));
        let body = api.get(&format!("/v1/islands{query}")).json();
        assert_lists(&page, &body["islands"], ("code", "href=\"islands/"));
        let total = body["meta"]["total"].as_u64().unwrap();
        has(page.text(), &format!("<p role=status>{total} island"));
    }
    for query in ["", "?q=a&offset=50"] {
        let page = client.get(&format!("/creators{query}"));
        let body = api.get(&format!("/v1/creators{query}")).json();
        assert_lists(&page, &body["creators"], ("slug", "href=\"creators/"));
    }
    let body = api.get("/v1/creators/ruby.gg65").json();
    let page = client.get("/creators/ruby.gg65");
    assert_lists(
        &page,
        &body["creator"]["islands"],
        ("code", "href=\"../islands/"),
    );
    for date in ["latest", "2026-11-07", "2026-10-10"] {
        let body = api.get(&format!("/v1/new/{date}")).json();
        let page = client.get(&format!("/new/{date}"));
        let (rows, shown) = (body["islands"].as_array().unwrap(), page.text());
        let held = rows
            .iter()
            .take(100)
            .all(|row| shown.contains(&format!("islands/{}", row["code"].as_str().unwrap())));
        assert!(held && page.status == 200, "{date}");
    }
    // A form sends empty fields, which the API refuses.
    assert_eq!(
        client
            .get("/islands?createdIn=&sort=&limit=&offset=")
            .status,
        200
    );
    assert_eq!(client.get("/islands?sort=title").status, 400);
    assert_eq!(client.get("/creators?limit=0").status, 400);
    assert_eq!(client.get("/creators/nobody").status, 404);
}

#[test]
fn days_link_to_their_neighbours() {
    let (_server, mut client) = sample();
    let page = client.get("/rankings/2026-11-19");
    for link in [
        "rel=prev href=\"../rankings/2026-11-18\"",
        "rel=next href=\"../rankings/2026-11-20\"",
    ] {
        assert!(page.text().contains(link), "{link}");
    }
    for (target, prev, next) in [
        ("/rankings", true, false),
        ("/rankings?date=2026-10-10", false, true),
        ("/new/latest", true, false),
        ("/new?date=2026-11-08", true, true),
    ] {
        let page = client.get(target);
        assert_eq!(page.status, 200, "{target}");
        assert_eq!(page.text().contains("rel=prev"), prev, "{target}");
        assert_eq!(page.text().contains("rel=next"), next, "{target}");
    }
    let is_first = |date: &str, client: &mut Client| {
        let page = client.get(&format!("/new/{date}"));
        page.text().contains("The data begins on this day")
    };
    assert!(is_first("2026-10-10", &mut client) && !is_first("2026-11-08", &mut client));
    for (target, root) in [
        ("/rankings/2020-01-01", "../"),
        ("/rankings?date=2020-01-01", ""),
    ] {
        let page = client.request("GET", target, &[("Accept", "text/html")]);
        for day in ["2026-10-10", "2026-11-20"] {
            has(page.text(), &format!("<a href=\"{root}rankings/{day}\">"));
        }
    }
    assert_eq!(client.get("/rankings?date=soon").status, 400);
    assert_eq!(client.get("/rankings/2020-01-01").status, 404);
    assert_eq!(client.get("/new?date=2026-02-30").status, 404);
}

#[test]
fn the_page_of_new_islands_begins_with_the_newest_day_that_has_some() {
    let server = Server::start(&[]);
    let (mut client, mut api) = (server.connect(), server.connect());
    let days = api.get("/v1/new").json()["days"].clone();
    let days: Vec<&str> = (days.as_array().unwrap().iter())
        .map(|day| day.as_str().unwrap())
        .collect();
    let mut has_new = |day: &&&str| {
        let body = api.get(&format!("/v1/new/{day}")).json();
        !body["islands"].as_array().unwrap().is_empty()
    };
    let newest = days.iter().max().unwrap();
    let wanted = days.iter().filter(|day| has_new(day)).max().unwrap();
    assert_ne!(
        newest, wanted,
        "the newest day of the sample has no new islands"
    );
    // Only the newest day may be marked as old.
    let title = format!("<h1>New islands of <time>{wanted}</time></h1>");
    assert!(client.get("/new").text().contains(&title), "{title}");
    let title = format!("<h1>New islands of <time datetime=\"{newest}\"");
    assert!(client.get("/new/latest").text().contains(&title), "{title}");
}

/// Serves one island that has no day and no live data.
fn serve_without_days(dir: &TempDir) -> Server {
    let (dataset, to) = (dir.join("dataset"), dir.join("published"));
    let islands = "code,title,creator,createdIn,tags\n1000-0000-0000,A,,,\n";
    write_file(&dataset.join("islands.csv"), islands);
    publish(&dataset, &to, "2026-11-21T00:10:00Z");
    Server::of(&to, &[])
}

#[test]
fn a_page_names_the_payload_that_is_not_published_as_the_api_does() {
    let dir = TempDir::new();
    let server = serve_without_days(&dir);
    let mut client = server.connect();
    for path in ["/rankings", "/new"] {
        let api = client.get(&format!("/v1{path}"));
        let page = client.request("GET", path, &[("Accept", "text/html")]);
        assert_eq!((api.status, page.status), (503, 503), "{path}");
        let message = api.message();
        // The page begins it with a capital letter.
        assert!(page.text().contains(&message[1..]), "{path}: {message}");
    }
}

#[test]
fn the_page_of_live_players_says_what_it_would_show_without_live_data() {
    let dir = TempDir::new();
    let server = serve_without_days(&dir);
    let mut client = server.connect();
    assert_eq!(client.get("/v1/live").status, 503);
    let page = client.get("/live");
    assert_eq!(page.status, 200);
    for part in parts("the hundred islands with the most players|2026-11-21T00:10:00Z") {
        has(page.text(), part);
    }
}

#[test]
fn a_search_for_a_code_leads_to_its_island() {
    let (_server, mut client) = sample();
    for query in
        words("q=2708-3623-7025 q=+2708-3623-7025%20&sort=plays q=270836237025 q=2708+3623+7025")
    {
        let reply = client.get(&format!("/islands?{query}"));
        assert_eq!(reply.status, 303, "{query}");
        assert_eq!(reply.expect("location"), "islands/2708-3623-7025");
        assert_eq!(reply.expect("cache-control"), "no-store");
    }
    let island = client.get("/v1/islands/2708-3623-7025").json()["island"].clone();
    let title = format!("<h1><bdi>{}<", island["title"].as_str().unwrap());
    has(client.get("/islands/2708-3623-7025").text(), &title);
    // The page of a code that no island has says so.
    let unknown = client.get("/islands?q=1000-0000-0000");
    assert_eq!(unknown.expect("location"), "islands/1000-0000-0000");
    assert_eq!(client.get("/islands/1000-0000-0000").status, 404);
    for text in words("1000-0000-000 10000000000 1000000000000 %C3%BC0000000000") {
        assert_eq!(
            client.get(&format!("/islands?q={text}")).status,
            200,
            "{text}"
        );
    }
}

#[test]
fn an_island_has_its_rank_its_change_and_its_highest_peak() {
    let server = Server::start(&[]);
    let (mut client, mut api) = (server.connect(), server.connect());
    let list = api.get("/v1/islands?limit=200").json();
    // All of them are in the list, which is sorted by the peak.
    let islands = list["islands"].as_array().unwrap().iter();
    let total = islands
        .filter(|island| !island["peakCCU"].is_null())
        .count();
    for place in [0, 1, 57, 199] {
        let code = list["islands"][place]["code"].as_str().unwrap();
        let page = client.get(&format!("/islands/{code}"));
        // The numbers of the sample need no separators, except those above 999.
        let text = page.text().replace(',', "");
        if list["islands"][place]["peakCCU"].is_null() {
            assert!(!text.contains("Rank by peak"), "{code}");
            continue;
        }
        let rank = format!(
            "<dt>Rank by peak<dd>{}<small>of {total} islands with a peak<span>",
            place + 1
        );
        assert!(text.contains(&rank), "{rank}");
        let ccu = api.get(&format!("/v1/islands/{code}/ccu")).json()["ccu"].clone();
        let ccu: Vec<(&str, u64)> = (ccu.as_array().unwrap().iter())
            .map(|point| (point[0].as_str().unwrap(), point[1].as_u64().unwrap()))
            .collect();
        let mut highest = ccu[0];
        for point in &ccu {
            if point.1 > highest.1 {
                highest = *point;
            }
        }
        let highest = format!(
            "<dt>Highest known peak<dd>{}<small>{}<span>peaks are known since <time>{}<",
            highest.1, highest.0, ccu[0].0
        );
        assert!(text.contains(&highest), "{highest}");
        let [.., (_, before), (_, newest)] = ccu[..] else {
            panic!("the sample has two days")
        };
        let sign = if newest >= before { '+' } else { '\u{2212}' };
        let change = format!("{sign}{}", newest.abs_diff(before));
        assert!(text.contains(&change), "{code}: {change}");
    }
}

#[test]
fn an_island_has_a_chart_of_each_metric_and_its_live_players() {
    let server = Server::start(&[]);
    let (mut client, mut api) = (server.connect(), server.connect());
    let code = api.get("/v1/live").json()["islands"][3]["code"]
        .as_str()
        .unwrap()
        .to_owned();
    let live = api.get("/v1/live").json()["islands"][3]["players"].to_string();
    let series = api.get(&format!("/v1/islands/{code}")).json()["island"]["series"].clone();
    for (metric, scale) in [
        ("plays", 1.0),
        ("averageMinutesPerPlayer", 10.0),
        ("retentionD7", 1_000.0),
    ] {
        let page = client.get(&format!("/islands/{code}?metric={metric}"));
        // The last chart has all days.
        let (_, rest) = page.text().rsplit_once("data-values=\"").unwrap();
        let shown = rest.split('"').next().unwrap().split(',');
        let shown: Vec<f64> = shown.filter_map(|value| value.parse().ok()).collect();
        let points = series.as_array().unwrap().iter();
        let want: Vec<f64> = points
            .filter_map(|point| Some((point[metric].as_f64()? * scale).round()))
            .collect();
        assert_eq!(shown, want, "{metric}");
        has(page.text(), &format!("<dt>Players now<dd>{live}<small>"));
    }
    let page = client.get(&format!("/islands/{code}?days=30"));
    for link in [
        "?metric=plays&amp;days=30#history\">Plays</a>",
        "?days=30#history\" aria-current=true>30 days</a>",
        "#history\">All</a>",
    ] {
        has(page.text(), &format!("{code}{link}"));
    }
    for query in ["metric=players", "days=7", "days="] {
        let reply = client.get(&format!("/islands/{code}?{query}"));
        assert_eq!(reply.status, 400, "{query}");
    }
}
