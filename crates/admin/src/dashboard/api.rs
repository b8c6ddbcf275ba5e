//! What the page asks: the nodes' answers, a trace at a node, a flow of the cluster. Nothing changes a node.

use super::nodes::{Nodes, is};
use crate::client::ClientError;
use crate::model::{PinnedFlow, Trace};
use crate::server::routes::problem;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::Value;
use std::sync::Arc;

type Served = State<Arc<Nodes>>;

/// The routes, which the token guards.
pub(super) fn routes(nodes: Arc<Nodes>) -> Router {
    Router::new()
        .route("/api/nodes", get(overview))
        .route("/api/nodes/{id}", get(detail))
        .route("/api/nodes/{id}/trace", post(trace))
        .route("/api/flow", get(flow))
        .with_state(nodes)
}

async fn overview(State(nodes): Served) -> Json<Value> {
    Json(nodes.overview())
}

async fn detail(State(nodes): Served, Path(id): Path<usize>) -> Response {
    nodes.detail(id).map_or_else(|| no_node(id), |node| Json(node).into_response())
}

async fn trace(State(nodes): Served, Path(id): Path<usize>, body: Bytes) -> Response {
    let Some(node) = nodes.get(id) else { return no_node(id) };
    answer(node.pass_on(Method::POST, "/v1/trace", body, is::<Trace>).await)
}

/// Asks the first node that answers.
async fn flow(State(nodes): Served, RawQuery(query): RawQuery) -> Response {
    let path = format!("/v1/flow?{}", query.unwrap_or_default());
    let mut failed = None;
    for node in nodes.answering() {
        match node.pass_on(Method::GET, &path, Bytes::new(), is::<PinnedFlow>).await {
            Err(error) => failed = Some(error),
            done => return answer(done),
        }
    }
    match failed {
        Some(error) => answer(Err(error)),
        None => problem(StatusCode::BAD_GATEWAY, "no node answers"),
    }
}

fn answer(answer: Result<(StatusCode, Value), ClientError>) -> Response {
    match answer {
        Ok((code, value)) => (code, Json(value)).into_response(),
        Err(error @ ClientError::TimedOut(..)) => problem(StatusCode::GATEWAY_TIMEOUT, error.to_string()),
        Err(error) => problem(StatusCode::BAD_GATEWAY, error.to_string()),
    }
}

fn no_node(id: usize) -> Response {
    problem(StatusCode::NOT_FOUND, format!("the dashboard has no node {id}: see /api/nodes"))
}
