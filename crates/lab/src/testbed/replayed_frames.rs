//! Sends captured frames once more, from an interface of its own.

use super::LabError;
use super::args::ReplayedFramesArgs;
use super::context::until_interrupted;
use super::damaged_frames::await_up;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_io::CaptureReader;
use std::thread;
use std::time::Duration;
use tun_rs::{DeviceBuilder, Layer};

/// Frames between two pauses, so that receivers do not lose frames for lack of buffers.
const BURST: usize = 64;

/// Time until a bridge forwards what comes from an interface that is up.
const BRIDGED: Duration = Duration::from_millis(500);

/// Sends the frames. Prints `ready` when the interface exists, and `done` with the number of frames after the last one.
///
/// # Errors
/// [`LabError`].
pub fn run(args: &ReplayedFramesArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, LabError> {
    let unreadable = |error| LabError::Setup(format!("{}: {error}", args.capture.display()));
    let frames = CaptureReader::open(&args.capture).map_err(unreadable)?;
    let frames: Vec<_> = frames.collect::<Result<_, _>>().map_err(unreadable)?;
    let device = DeviceBuilder::new().name(args.interface.clone()).layer(Layer::L2).build_sync();
    let device = device.map_err(|error| LabError::Setup(format!("cannot create an interface: {error}")))?;
    console.result("ready")?;
    await_up(&device, interrupt)?;
    thread::sleep(BRIDGED);
    let mut sent = 0;
    for (number, frame) in frames.iter().enumerate() {
        sent += usize::from(device.send(&frame.data).is_ok());
        if number % BURST == 0 {
            interrupt.check()?;
            thread::sleep(Duration::from_millis(2));
        }
    }
    console.result(&format!("done {sent}"))?;
    until_interrupted(interrupt);
    Ok(status::SUCCESS)
}
