//! The paths of a node's admin interface, and their schema.

use super::super::running::Running;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use scalebricks_admin::metrics;
use scalebricks_admin::model::router::{LinkView, NextHopView, RouterView, RoutesRequest, RoutesView};
use scalebricks_admin::model::{Health, Problem};
use scalebricks_admin::server::Limits;
use scalebricks_admin::server::graph;
use scalebricks_admin::server::process::{self, Process};
use scalebricks_admin::server::rejected::Rejected;
use scalebricks_admin::server::routes::{bounded, json_text, schema_text};
use std::fmt;
use std::sync::Arc;
use utoipa::OpenApi;

/// The schema of the interface, as a JSON document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Admin interface of a node of a ScaleBricks router",
        description = "The state of a running node of a cluster router, its routes, next hops and links, and the graph of its \
            worker. Counters start at zero when it starts; fields may be added under /v1 at any time.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
        contact()
    ),
    paths(
        status,
        routes,
        next_hops,
        links,
        graph::view,
        graph::replace,
        graph::reload,
        graph::element,
        graph::read,
        graph::write,
        process::prometheus,
        process::healthz,
        process::readyz,
        schema
    )
)]
struct Schema;

/// The schema, indented, with a newline at its end.
///
/// # Errors
/// The serialiser's error.
pub fn openapi() -> Result<String, serde_json::Error> {
    schema_text::<Schema>()
}

type Node = State<Arc<Running>>;

pub(super) fn router(node: Arc<Running>, limits: Limits) -> Router {
    let router = Router::new()
        .route("/v1/router", get(status))
        .route("/v1/router/routes", post(routes))
        .route("/v1/router/next-hops", get(next_hops))
        .route("/v1/router/links", get(links))
        .route("/openapi.json", get(schema))
        .merge(graph::routes().with_state(Arc::new(node.served_graph())))
        .merge(process::routes().with_state(Arc::clone(&node) as Arc<dyn Process>))
        .with_state(node);
    bounded(router, limits)
}

/// Status of the node.
#[utoipa::path(get, path = "/v1/router", responses((status = 200, body = RouterView)))]
async fn status(State(node): Node) -> Json<RouterView> {
    Json(node.view())
}

/// Routes with all their paths, by prefix; at most 100 unless a limit is given.
#[utoipa::path(post, path = "/v1/router/routes", request_body = RoutesRequest, responses(
    (status = 200, body = RoutesView),
    (status = 400, body = Problem, description = "not a valid address or prefix"),
))]
async fn routes(
    State(node): Node,
    asked: Result<Json<RoutesRequest>, JsonRejection>,
) -> Result<Json<RoutesView>, Rejected> {
    let Json(asked) = asked?;
    node.routes(&asked).map(Json).map_err(|error| Rejected::new(StatusCode::BAD_REQUEST, error))
}

/// The next hops of this node.
#[utoipa::path(get, path = "/v1/router/next-hops", responses((status = 200, body = Vec<NextHopView>)))]
async fn next_hops(State(node): Node) -> Json<Vec<NextHopView>> {
    Json(node.next_hops())
}

/// The links of this node.
#[utoipa::path(get, path = "/v1/router/links", responses((status = 200, body = Vec<LinkView>)))]
async fn links(State(node): Node) -> Json<Vec<LinkView>> {
    Json(node.links())
}

impl Process for Running {
    fn metrics(&self) -> Result<String, fmt::Error> {
        metrics::render_router(&self.view(), &self.links())
    }

    fn health(&self) -> Health {
        Health { state: self.state(), is_ready: self.is_ready(), reasons: Vec::new() }
    }
}

/// This schema.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, content_type = "application/json", body = String)))]
async fn schema() -> Response {
    json_text(openapi())
}
