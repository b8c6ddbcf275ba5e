// Runs CUDA C as C++ on a processor, for tests. Each thread of a thread block is a fiber with its own stack. A fiber
// runs until it waits for its warp (__shfl_sync) or its thread block (__syncthreads). One thread block runs at a time.
//
// The order in which fibers take turns is a parameter: a kernel that forgot to wait gives other results in another
// order. Lanes of a warp that wait for different things end the program with status 3.

#undef _FORTIFY_SOURCE // its longjmp refuses to change stacks
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <setjmp.h>
#include <ucontext.h>

#define __global__
#define __device__ static
#define __constant__ static const
#define __shared__ static

struct Index {
    unsigned x;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

namespace shim {
const unsigned LANES = 32, MOST = 1024;
const size_t STACK = 64 << 10;
enum State { READY, AT_BARRIER, AT_WARP, DONE };
struct Fiber {
    State state;
    bool started;
    unsigned long long turn; // operations of the warp so far
    unsigned long long exchange[2];
    ucontext_t context;
    jmp_buf resume;
};
static Fiber fibers[MOST];
static char *stacks;
static jmp_buf scheduler;
static void (*body)(void *);
static void *argument;

static void fail(const char *what) {
    std::fprintf(stderr, "block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
    std::exit(3);
}

static void wait(State state) {
    Fiber &own = fibers[threadIdx.x];
    unsigned thread = threadIdx.x;
    own.state = state;
    if (_setjmp(own.resume) == 0) {
        _longjmp(scheduler, 1);
    }
    threadIdx.x = thread;
}

static void start() {
    body(argument);
    fibers[threadIdx.x].state = DONE;
    _longjmp(scheduler, 1);
}

// Lets a fiber run until it waits or ends.
static void resume(unsigned thread) {
    Fiber &fiber = fibers[thread];
    if (_setjmp(scheduler) != 0) {
        return;
    }
    threadIdx.x = thread;
    if (fiber.started) {
        _longjmp(fiber.resume, 1);
    }
    fiber.started = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks + thread * STACK;
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, start, 0);
    setcontext(&fiber.context);
}

// Whether these fibers, if not done, all wait for this; then they are ready.
static bool release(unsigned from, unsigned count, State state) {
    bool some = false;
    for (unsigned i = from; i < from + count; ++i) {
        if (fibers[i].state == READY || (fibers[i].state != DONE && fibers[i].state != state)) {
            return false;
        }
        some |= fibers[i].state == state;
    }
    for (unsigned i = from; some && i < from + count; ++i) {
        fibers[i].state = fibers[i].state == state ? READY : fibers[i].state;
    }
    return some;
}

static void run_block(bool backwards) {
    unsigned threads = blockDim.x;
    for (unsigned i = 0; i < threads; ++i) {
        fibers[i].state = READY;
        fibers[i].started = false;
        fibers[i].turn = 0;
    }
    for (bool moves = true; moves;) {
        for (unsigned i = 0; i < threads; ++i) {
            unsigned thread = backwards ? threads - 1 - i : i;
            if (fibers[thread].state == READY) {
                resume(thread);
            }
        }
        moves = release(0, threads, AT_BARRIER);
        for (unsigned warp = 0; warp < threads; warp += LANES) {
            moves |= release(warp, LANES, AT_WARP);
        }
    }
    for (unsigned i = 0; i < threads; ++i) {
        threadIdx.x = i;
        if (fibers[i].state != DONE) {
            bool in_warp = fibers[i].state == AT_WARP;
            fail(in_warp ? "waits for lanes that do not come" : "waits for threads that do not come");
        }
    }
}

// The value that another lane of the warp passed to the same operation.
template <typename T> static T from_lane(unsigned mask, T value, unsigned lane) {
    unsigned thread = threadIdx.x, source = thread / LANES * LANES + lane % LANES;
    if (mask != 0xffffffffu) {
        fail("a mask without some lanes");
    }
    unsigned long long turn = fibers[thread].turn++;
    fibers[thread].exchange[turn % 2] = value;
    wait(AT_WARP);
    if (fibers[source].turn != turn + 1 && fibers[source].turn != turn + 2) {
        fail("lanes of a warp are at different operations");
    }
    return (T)fibers[source].exchange[turn % 2];
}
} // namespace shim

static void __syncthreads() { shim::wait(shim::AT_BARRIER); }
template <typename T> static T __shfl_sync(unsigned mask, T value, unsigned lane) {
    return shim::from_lane(mask, value, lane);
}
template <typename T> static T __shfl_xor_sync(unsigned mask, T value, unsigned bits) {
    return shim::from_lane(mask, value, threadIdx.x % shim::LANES ^ bits);
}
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static unsigned atomicAdd(unsigned *at, unsigned value) {
    unsigned old = *at;
    *at += value;
    return old;
}
static unsigned atomicOr(unsigned *at, unsigned value) {
    unsigned old = *at;
    *at |= value;
    return old;
}
static unsigned long long atomicMin(unsigned long long *at, unsigned long long value) {
    unsigned long long old = *at;
    *at = value < old ? value : old;
    return old;
}

// Runs a kernel, given as a function object, in thread blocks of `threads` threads. The thread blocks too take turns in
// both orders.
template <typename Kernel> static void launch(unsigned grid, unsigned threads, bool backwards, Kernel kernel) {
    if (shim::stacks == nullptr) {
        shim::stacks = (char *)std::malloc(shim::MOST * shim::STACK);
    }
    shim::body = [](void *kernel) { (*(Kernel *)kernel)(); };
    shim::argument = &kernel;
    gridDim.x = grid;
    blockDim.x = threads;
    for (unsigned i = 0; i < grid; ++i) {
        blockIdx.x = backwards ? grid - 1 - i : i;
        shim::run_block(backwards);
    }
    shim::argument = nullptr;
}
