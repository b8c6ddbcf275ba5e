import os

import numpy as np
import pytest


@pytest.fixture
def random():
    """The seed is fixed in a gate, which must not fail at random; NUMPY_SEED repeats or changes it."""
    return np.random.default_rng(int(os.environ.get("NUMPY_SEED", "20150817")))
