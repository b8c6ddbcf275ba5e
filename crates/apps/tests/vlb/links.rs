//! Hellos: every node knows which links work, and packets take them.
