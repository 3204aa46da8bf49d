// A physics module for TORCS 1.3.7 that leaves all physics to TORCS's own, simuv2, and tells what came of each step.
//
// TORCS steps its physics every 2 ms, but asks robots only every 20 ms: here every step is seen. The module is loaded in place of
// simuv2, loads that, hands over all but one of its functions as they are, and calls the one that makes a step before it looks.
//
// It writes to what was stdout, a line each: "samepath 1", A a car, S states of ticks, C contact, E end. Numbers are bytes in base64.
// What TORCS and its robots print themselves goes to stderr from then on.
//
// From the environment: SAMEPATH_SIMUV2 is the path of simuv2.so, SAMEPATH_TICKS when to end, SAMEPATH_CARS how many cars are wanted.

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr int kStepsPerTick = 25;
constexpr double kStepS = 0.002;
constexpr int kTicksAtOnce = 20;
constexpr int kBadRun = 3;

// Where TORCS 1.3.7 has what is read here, in bytes from the start of a car or of the situation, on 64-bit Linux.
// They are checked against each other before the first word is written.
namespace car_at {
constexpr size_t index = 0, centre = 204;                      // the middle of the mass in the car's own frame, three floats
constexpr size_t own = 328, world = 400, matrix = 476;         // place, velocity, acceleration, six floats each; 4 x 4 floats
constexpr size_t state = 576, params = 848, driver = 856, module = 860;
constexpr size_t gear = 1344, fuel = 1348, touched = 1464, control = 1536;
}  // namespace car_at
namespace race_at {
constexpr size_t count = 0, state = 8, cars = 56;
}  // namespace race_at
constexpr int kEnded = 0x04, kPrestart = 0x10;
constexpr int kWall = 0x02, kCar = 0x04;
constexpr int kOut = 0xff;  // of a car's state: it is no longer simulated
constexpr size_t kNameBytes = 32;

using Update = void (*)(void* situation, double step_s, int telemetry);
using ReadNumber = float (*)(void* handle, const char* path, const char* key, const char* unit, float otherwise);

struct Simulation {  // what a physics module offers
    void* init;
    void* config;
    void* reconfig;
    Update update;
    void* shutdown;
};

struct Module {  // how a module presents itself
    const char* name;
    const char* description;
    int (*offer)(int index, void* where);
    unsigned int id;
    int index;
    int priority;
    int magic;
};

struct Velocity {
    float x, y, z;
};

int out = -1;
Update real_update = nullptr;
int (*real_offer)(int, void*) = nullptr;
ReadNumber read_number = nullptr;
long steps = 0;
long last_tick = 0;
std::vector<char*> cars;  // in the order of the starting grid
std::vector<Velocity> before;
std::vector<int> touching;
std::string states;
int waiting = 0;

template <typename T>
T at(const char* base, size_t offset) {
    T value;
    std::memcpy(&value, base + offset, sizeof value);
    return value;
}

[[noreturn]] void fail(const std::string& words) {
    std::fflush(nullptr);  // what TORCS has said before comes first
    const std::string line = "samepath: " + words + "\n";
    if (write(2, line.data(), line.size()) < 0) _exit(kBadRun + 1);
    _exit(kBadRun);
}

void say(const std::string& line) {
    const std::string text = line + "\n";
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t count = write(out, text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) _exit(kBadRun);  // nobody reads any more
        done += static_cast<size_t>(count);
    }
}

std::string base64(const std::string& bytes) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (size_t first = 0; first < bytes.size(); first += 3) {
        const size_t count = bytes.size() - first < 3 ? bytes.size() - first : 3;
        uint32_t group = 0;
        for (size_t i = 0; i < 3; ++i) group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[first + i]) : 0u);
        for (size_t i = 0; i < 4; ++i) text += i <= count ? letters[group >> (18 - 6 * i) & 63] : '=';
    }
    return text;
}

template <typename T>
void put(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Velocity velocity(const char* car) {
    return {at<float>(car, car_at::world + 24), at<float>(car, car_at::world + 28), at<float>(car, car_at::world + 32)};
}

// Is a car built as we think it is? Its matrix has to have its place in it, as simuv2 works it out.
void check(const char* car, int number, int count) {
    if (at<int>(car, car_at::index) != number) fail("a car has the number of another: this is not the TORCS that is known here");
    for (int axis = 0; axis < 3; ++axis) {
        const float place = at<float>(car, car_at::own + 4 * axis) - at<float>(car, car_at::centre + 4 * axis);
        const float shown = at<float>(car, car_at::matrix + 4 * (12 + axis));
        if (!(std::fabs(place - shown) < 1e-3f)) fail("a car is not where its matrix says: this is not the TORCS that is known here");
    }
    const char* name = car + car_at::module;
    if (memchr(name, 0, kNameBytes) == nullptr || number >= count) fail("a car's driver has no name: this is not the TORCS that is known here");
}

void begin(const char* situation) {
    const int count = at<int>(situation, race_at::count);
    const char* wanted = getenv("SAMEPATH_CARS");
    if (wanted == nullptr || count != atoi(wanted)) {
        fail(std::to_string(count) + " cars are at the start where " + (wanted == nullptr ? "?" : wanted) + " were wanted");
    }
    char** const list = at<char**>(situation, race_at::cars);
    cars.assign(static_cast<size_t>(count), nullptr);
    for (int i = 0; i < count; ++i) {
        const int number = at<int>(list[i], car_at::index);
        if (number < 0 || number >= count) fail("a car has no number: this is not the TORCS that is known here");
        cars[static_cast<size_t>(number)] = list[i];
    }
    for (int i = 0; i < count; ++i) {
        if (cars[static_cast<size_t>(i)] == nullptr) fail("two cars have one number: this is not the TORCS that is known here");
        check(cars[static_cast<size_t>(i)], i, count);
    }
    before.resize(cars.size());
    touching.assign(cars.size(), 0);
    say("samepath 1");
    for (size_t i = 0; i < cars.size(); ++i) {
        say("A " + std::to_string(i + 1) + " " + (cars[i] + car_at::module) + " " + std::to_string(at<int>(cars[i], car_at::driver)));
    }
}

void flush() {
    if (waiting > 0) say("S " + base64(states));
    states.clear();
    waiting = 0;
}

[[noreturn]] void finish(const char* reason) {
    flush();
    say(std::string("E ") + reason);
    std::fflush(nullptr);
    _exit(0);  // what TORCS would do now is of no use here: it writes results and waits for nobody
}

void tell_states() {
    put<uint32_t>(states, static_cast<uint32_t>(steps));
    for (const char* car : cars) {
        for (size_t i = 0; i < 6; ++i) put(states, at<float>(car, car_at::own + 4 * i));
        for (size_t i = 0; i < 3; ++i) put(states, at<float>(car, car_at::world + 24 + 4 * i));
        put(states, at<float>(car, car_at::own + 24 + 20));  // how fast it turns
        for (size_t i = 0; i < 3; ++i) put(states, at<float>(car, car_at::control + 4 * i));
        put(states, static_cast<float>(at<int>(car, car_at::gear)));
    }
    if (++waiting >= kTicksAtOnce) flush();
}

float mass_kg(const char* car) {
    return read_number(at<void*>(car, car_at::params), "Car", "mass", nullptr, 0.0f) + at<float>(car, car_at::fuel);
}

// Which of those that were touched by a car in this step is the nearest: TORCS tells that they were, not by whom.
int nearest(size_t one) {
    int found = -1;
    double least = INFINITY;
    for (size_t other = 0; other < cars.size(); ++other) {
        if (other == one || !(at<int>(cars[other], car_at::touched) & kCar)) continue;
        const double x = at<float>(cars[other], car_at::own) - at<float>(cars[one], car_at::own);
        const double y = at<float>(cars[other], car_at::own + 4) - at<float>(cars[one], car_at::own + 4);
        if (x * x + y * y < least) {
            least = x * x + y * y;
            found = static_cast<int>(other) + 1;
        }
    }
    return found;
}

void tell_contacts() {
    for (size_t i = 0; i < cars.size(); ++i) {
        const int now = at<int>(cars[i], car_at::state) & kOut ? 0 : at<int>(cars[i], car_at::touched) & (kCar | kWall);
        const int fresh = now & ~touching[i];
        touching[i] = now;
        for (const int kind : {kCar, kWall}) {
            const int other = kind == kCar ? nearest(i) : -1;
            if (!(fresh & kind) || (kind == kCar && other < 0)) continue;
            const Velocity after = velocity(cars[i]);
            const float mass = mass_kg(cars[i]);
            std::string told;
            put<int32_t>(told, static_cast<int32_t>(steps));
            put<int32_t>(told, static_cast<int32_t>(i) + 1);
            put<int32_t>(told, other);
            for (const float change : {after.x - before[i].x, after.y - before[i].y, after.z - before[i].z}) put(told, mass * change);
            flush();
            say("C " + base64(told));
        }
    }
}

void update(void* situation, double step_s, int telemetry) {
    const char* const race = static_cast<const char*>(situation);
    if (at<int>(race, race_at::state) & kEnded) finish("finished");
    if (at<int>(race, race_at::state) & kPrestart) {
        real_update(situation, step_s, telemetry);
        return;
    }
    if (steps > 0) {
        for (size_t i = 0; i < cars.size(); ++i) before[i] = velocity(cars[i]);
    }
    real_update(situation, step_s, telemetry);
    if (std::fabs(step_s - kStepS) > 1e-12) fail("a step is not 2 ms long");
    if (steps++ == 0) {
        begin(race);
        for (size_t i = 0; i < cars.size(); ++i) before[i] = velocity(cars[i]);
    }
    tell_contacts();
    if (steps % kStepsPerTick == 0) {
        tell_states();
        if (steps / kStepsPerTick >= last_tick) finish("over");
    }
}

int offer(int index, void* where) {
    const int answer = real_offer(index, where);
    if (answer == 0) {
        auto* const simulation = static_cast<Simulation*>(where);
        real_update = simulation->update;
        simulation->update = update;
    }
    return answer;
}

}  // namespace

// TORCS calls the function that has the name of the file.
extern "C" int telling(Module* module) {
    const char* const path = getenv("SAMEPATH_SIMUV2");
    const char* const ticks = getenv("SAMEPATH_TICKS");
    if (path == nullptr || ticks == nullptr) fail("SAMEPATH_SIMUV2 and SAMEPATH_TICKS were wanted in the environment");
    last_tick = atol(ticks);
    void* const library = dlopen(path, RTLD_NOW);
    if (library == nullptr) fail(std::string("TORCS's own physics cannot be loaded: ") + dlerror());
    const auto entry = reinterpret_cast<int (*)(Module*)>(dlsym(library, "simuv2"));
    read_number = reinterpret_cast<ReadNumber>(dlsym(RTLD_DEFAULT, "_Z12GfParmGetNumPvPKcS1_S1_f"));
    if (entry == nullptr || read_number == nullptr) fail("this is not the TORCS that is known here: a function is missing");
    out = dup(1);
    if (out < 0 || dup2(2, 1) < 0) fail("stdout cannot be taken over");
    const int answer = entry(module);
    real_offer = module->offer;
    module->offer = offer;
    return answer;
}
