//! The page and its parts, which are in the program, and the headers that keep the browser to them.

use axum::Router;
use axum::extract::Request;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::middleware::{self, Next};
use axum::routing::get;

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($path:literal = $kind:literal, $file:literal;)+) => {
        &[$(Asset { path: $path, kind: $kind, text: include_str!(concat!("page/", $file)) },)+]
    };
}

const ASSETS: &[Asset] = assets! {
    "/" = "text/html; charset=utf-8", "index.html";
    "/style.css" = "text/css; charset=utf-8", "style.css";
    "/icon.svg" = "image/svg+xml", "icon.svg";
    "/api.js" = "text/javascript; charset=utf-8", "api.js";
    "/cluster.js" = "text/javascript; charset=utf-8", "cluster.js";
    "/detail.js" = "text/javascript; charset=utf-8", "detail.js";
    "/dom.js" = "text/javascript; charset=utf-8", "dom.js";
    "/events.js" = "text/javascript; charset=utf-8", "events.js";
    "/format.js" = "text/javascript; charset=utf-8", "format.js";
    "/main.js" = "text/javascript; charset=utf-8", "main.js";
    "/overview.js" = "text/javascript; charset=utf-8", "overview.js";
    "/partitions.js" = "text/javascript; charset=utf-8", "partitions.js";
    "/path.js" = "text/javascript; charset=utf-8", "path.js";
    "/search.js" = "text/javascript; charset=utf-8", "search.js";
    "/theme.js" = "text/javascript; charset=utf-8", "theme.js";
    "/topology.js" = "text/javascript; charset=utf-8", "topology.js";
};

/// The page loads, runs and contacts nothing but what this server serves, and no other page may frame it. Text becomes
/// neither markup nor script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// The routes of the page. They contain no data of the cluster, and need no token: a browser cannot send one with the
/// first request.
pub(super) fn routes() -> Router {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        router.route(asset.path, get(move || async { ([(header::CONTENT_TYPE, asset.kind)], asset.text) }))
    })
}

/// Adds the headers to all answers.
pub(super) fn confined(router: Router) -> Router {
    router.layer(middleware::from_fn(|request: Request, next: Next| async move {
        let mut answer = next.run(request).await;
        for (name, value) in HEADERS {
            answer.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        answer
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The files that a text refers to: `from "./x.js"`, `href="/x"`, `src="/x"`.
    fn referred(text: &str) -> BTreeSet<String> {
        let after = |mark: &str| {
            let ends = text.split(mark).skip(1);
            ends.filter_map(|end| end.split('"').next()).map(str::to_owned).collect::<Vec<_>>()
        };
        let imports = after("from \"./").into_iter().map(|name| format!("/{name}"));
        let links = ["href=\"", "src=\""].into_iter().flat_map(after);
        imports.chain(links.filter(|link| !link.starts_with('#'))).collect()
    }

    #[test]
    fn the_page_is_complete_and_refers_to_itself_only() {
        let all: BTreeSet<String> = ASSETS.iter().map(|asset| asset.path.to_owned()).collect();
        assert_eq!(all.len(), ASSETS.len());
        let used: BTreeSet<String> = ASSETS.iter().flat_map(|asset| referred(asset.text)).collect();
        assert!(used.is_subset(&all), "missing: {:?}", used.difference(&all));
        let unused: Vec<_> = all.difference(&used).filter(|path| *path != "/").collect();
        assert!(unused.is_empty(), "never used: {unused:?}");
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/dashboard/page")).unwrap();
        assert_eq!(files.count(), ASSETS.len(), "files that are not served");
    }

    #[test]
    fn no_text_can_become_markup_and_no_other_host_is_named() {
        for Asset { path, text, .. } in ASSETS {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "style=",
                "onclick=",
            ] {
                assert!(!text.contains(word), "{path}: {word}");
            }
            let others = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!others.contains("://"), "{path} names another host");
        }
    }

    #[test]
    fn the_page_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes < 128 << 10, "{bytes}");
    }
}
