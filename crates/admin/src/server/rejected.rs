//! Why a request is not answered as wanted.

use super::routes::problem;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Why a request is not answered as wanted, as it is answered.
#[derive(Debug)]
pub struct Rejected(pub(super) Response);

impl Rejected {
    /// A refusal with this status, for this reason.
    pub fn new(code: StatusCode, error: impl Into<String>) -> Self {
        Self(problem(code, error))
    }
}

impl IntoResponse for Rejected {
    fn into_response(self) -> Response {
        self.0
    }
}

/// Has `?` turn what is wrong with the parts of a request into an answer, by its `new`.
macro_rules! from_rejections {
    ($answer:ident: $($rejection:ident),+) => {
        $(impl From<$rejection> for $answer {
            fn from(rejection: $rejection) -> Self {
                Self::new(rejection.status(), rejection.body_text())
            }
        })+
    };
}
pub(super) use from_rejections;

from_rejections!(Rejected: BytesRejection, JsonRejection, PathRejection, QueryRejection);
