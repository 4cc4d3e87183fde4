#include "runtime/timing.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <map>
#include <optional>

#include "backend/run/registry.h"
#include "base/error.h"
#include "runtime/program.h"

namespace ingot::runtime {

namespace {

using backend::Backend;
using backend::Stream;
using backend::TensorRef;
using kernels::Tunable;
using Clock = std::chrono::steady_clock;

// A kernel that can do a step, with its constants and sizes.
struct Way {
  std::string implementation;
  const backend::RunKernel* kernel;
  std::shared_ptr<const void> constants;
  std::vector<int64_t> sizes;
  std::vector<Tunable> tunables = {};
};

// A way with one choice of its kernel. `trial` without a problem: the kernel has nothing to choose.
struct Candidate {
  size_t way;
  bool usual;  // the choice of this way when no timing is known
  Timing trial = {};
  backend::Resolved resolved = {};
  std::unique_ptr<backend::Recording> recording = nullptr;
  double seconds = std::numeric_limits<double>::infinity();
};

// One question for timing. All steps with the same problem share it.
struct Subject {
  std::string machine, problem;
  bool contest;  // the choice between several ways; else `tunable` of the only way
  const std::vector<Way>* ways;
  std::vector<TensorRef> operands;
  std::vector<bool> weights;  // per operand: it is a weight
  size_t tunable = 0;
  double times = 1, seconds = 0;
};

// Memory in which one step runs again and again.
class Bench {
 public:
  static constexpr int64_t max_together = 32;

  Bench(const Backend& backend, Stream& stream, const Subject& s) : backend_(backend), stream_(stream), operands_(s.operands), weights_(s.weights) {
    const Backend::Room room = backend.room();
    constexpr size_t alignment = 256;
    size_t written = 0;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const TensorRef& t = operands_[i];
      int64_t low = 0, high = kernels::numel(t) == 0 ? -1 : 0;
      for (int d = 0; d < t.rank && high >= 0; ++d) (t.strides[d] < 0 ? low : high) += (t.dims[d] - 1) * t.strides[d];
      const size_t bytes = static_cast<size_t>(high - low + 1) * ir::size_of(t.dtype);
      before_.push_back(static_cast<size_t>(-low) * ir::size_of(t.dtype));
      bytes_.push_back((bytes + alignment - 1) / alignment * alignment);
      (weights_[i] ? read_ : written) += bytes_.back();
    }
    if (read_ > 0) copies_ = std::clamp<int64_t>(static_cast<int64_t>(2 * room.cache / read_), 1, max_together);
    const size_t all = written + read_ * static_cast<size_t>(copies_);
    // Leaves half of the free memory to other programs.
    if (all > room.free / 2) return;
    memory_ = reserve_bytes(all);
    std::byte* at = memory_.data();
    for (bool weights : {false, true}) {
      for (int64_t c = 0; c < (weights ? copies_ : 1); ++c) {
        for (size_t i = 0; i < operands_.size(); ++i) {
          if (weights_[i] != weights) continue;
          // Floats get small numbers, because zeros take less power and so less time. Integers may be indices, so they get 0.
          stream.fill(at, ir::is_float(operands_[i].dtype) ? 0x3c : 0, bytes_[i]);
          if (c == 0) operands_[i].data = at + before_[i];
          at += bytes_[i];
        }
      }
    }
    fits_ = true;
  }
  bool fits() const { return fits_; }
  MemoryBlock reserve_bytes(size_t bytes) const { return MemoryBlock(bytes, backend_.memory() != nullptr ? *backend_.memory() : system_allocator()); }

  void work(const Way& way, const Candidate& c, std::byte* scratch, int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
      // Takes other copies of the weights each time: in a model they are in no cache, because other weights were read since.
      const auto behind = static_cast<size_t>(turn_++ % copies_) * read_;
      std::vector<TensorRef> operands = operands_;
      for (size_t k = 0; k < operands.size(); ++k) operands[k].data += weights_[k] ? behind : 0;
      way.kernel->run({operands, way.sizes, way.constants.get(), c.resolved.state.get(), scratch, &inline_workers(), &backend_, &stream_});
    }
  }
  double seconds(FunctionRef<void()> work) {
    stream_.mark();
    work();
    stream_.mark();
    return static_cast<double>(stream_.nanoseconds().back()) * 1e-9;
  }

 private:
  const Backend& backend_;
  Stream& stream_;
  std::vector<TensorRef> operands_;
  std::vector<bool> weights_;
  std::vector<size_t> bytes_, before_;
  size_t read_ = 0;  // bytes of one copy of the weights
  int64_t copies_ = 1, turn_ = 0;
  MemoryBlock memory_;
  bool fits_ = false;
};

class Timer {
 public:
  Timer(const Backend& backend, std::span<const Timing> known, double seconds, FunctionRef<void(const Measured&)> tell)
      : backend_(backend), known_(known), tell_(tell), end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e6)))) {}

  void add(const plan::TimedStep& t, const Resolved& r) {
    const std::vector<TensorRef>& operands = r.steps[t.step].operands;
    std::vector<bool> weights(operands.size(), false);
    for (const Resolved::WeightOperand& w : r.of_weights) {
      if (w.step == t.step) weights[w.operand] = true;
    }
    std::vector<Way>& ways = ways_.emplace_back();
    for (const plan::TimedStep::Way& w : t.ways) {
      attempt(ways.empty(), [&] { ways.push_back(way_of(w, operands, r.sizes)); });
    }
    if (!t.problem.empty()) {
      const Timing* found = is_known(backend_.machine(), t.problem);
      if (found != nullptr) note(*found);
      if (ways.size() > 1) return want({backend_.machine(), t.problem, true, &ways, operands, weights});
    }
    for (size_t i = 0; i < ways[0].tunables.size(); ++i) {
      const Tunable& tunable = ways[0].tunables[i];
      const Timing* found = is_known(tunable.machine, tunable.problem);
      found != nullptr ? note(*found) : want({tunable.machine, tunable.problem, false, &ways, operands, weights, i});
    }
  }

  std::vector<Timing> run() {
    if (subjects_.empty() || is_over()) return std::move(out_);
    stream_ = backend_.new_own_stream();
    // Times the usual choice of each subject, to find the most expensive ones.
    for (Subject& s : subjects_) {
      if (is_over()) return std::move(out_);
      Bench bench(backend_, *stream_, s);
      if (!bench.fits()) continue;
      Candidate usual = std::move(candidates_of(s).front());
      usual.resolved = resolve(s, usual);
      const MemoryBlock scratch = bench.reserve_bytes(usual.resolved.scratch);
      auto once = [&] { bench.work((*s.ways)[0], usual, scratch.data(), 1); };
      once();
      s.seconds = bench.seconds(once);
    }
    std::stable_sort(subjects_.begin(), subjects_.end(), [](const Subject& x, const Subject& y) { return x.seconds * x.times > y.seconds * y.times; });
    for (const Subject& s : subjects_) {
      if (is_over() || !decide(s)) break;
    }
    return std::move(out_);
  }

 private:
  bool is_over() const { return Clock::now() >= end_; }
  // False if `work` fails: a library may refuse algorithms that it listed. With `must` (the plan's own way) the error is thrown.
  static bool attempt(bool must, FunctionRef<void()> work) {
    try {
      work();
    } catch (const Error&) {
      if (must) throw;
      return false;
    }
    return true;
  }
  Way way_of(const plan::TimedStep::Way& w, std::span<const TensorRef> operands, std::span<const int64_t> sizes) const {
    Way way{w.implementation, nullptr, nullptr, {}};
    for (plan::SizeRef s : w.step.sizes) way.sizes.push_back(sizes[s]);
    // Of a step's alternatives the one that would run.
    double least = std::numeric_limits<double>::infinity();
    auto consider = [&](const std::string& name) {
      const backend::RunKernel* kernel = backend_.find(name);
      if (kernel == nullptr) fail(Code::internal, "there is no kernel {} to time", name);
      Way own{w.implementation, kernel, kernel->load(w.step.constants, operands.size(), w.step.sizes.size()), way.sizes};
      const double nanoseconds = w.step.alternatives.empty() ? 0 : kernel->resolve(call(own, operands, nullptr)).nanoseconds;
      if (nanoseconds < least) least = nanoseconds, way = std::move(own);
    };
    consider(w.step.kernel);
    for (const std::string& name : w.step.alternatives) consider(name);
    if (way.kernel == nullptr) fail(Code::unsupported, "no kernel of the step can compute these sizes");
    if (way.kernel->tunables != nullptr) way.tunables = way.kernel->tunables(call(way, operands, nullptr));
    return way;
  }
  const Timing* is_known(std::string_view machine, std::string_view problem) const {
    for (std::span<const Timing> list : {known_, std::span<const Timing>(out_)}) {
      auto found = std::find_if(list.begin(), list.end(), [&](const Timing& t) { return t.problem == problem && t.machine == machine; });
      if (found != list.end()) return &*found;
    }
    return nullptr;
  }
  void note(Timing t) {
    if (std::find(out_.begin(), out_.end(), t) == out_.end()) out_.push_back(std::move(t));
  }
  void want(Subject s) {
    auto [found, made] = by_problem_.try_emplace(s.problem, subjects_.size());
    if (!made) {
      ++subjects_[found->second].times;
    } else {
      subjects_.push_back(std::move(s));
    }
  }
  backend::Call call(const Way& way, std::span<const TensorRef> operands, const Timing* trial) const {
    return {operands, way.sizes, way.constants.get(), nullptr, nullptr, &inline_workers(), &backend_, nullptr, trial};
  }
  backend::Resolved resolve(const Subject& s, const Candidate& c) const {
    const Way& way = (*s.ways)[c.way];
    return way.kernel->resolve(call(way, s.operands, c.trial.problem.empty() ? nullptr : &c.trial));
  }

  // The choices of each way; the plan's own way comes first.
  std::vector<Candidate> candidates_of(const Subject& s) const {
    std::vector<Candidate> out;
    for (size_t w = 0; w < s.ways->size(); ++w) {
      const Way& way = (*s.ways)[w];
      if (s.tunable >= way.tunables.size()) {
        out.push_back({w, true});
        continue;
      }
      const Tunable& tunable = way.tunables[s.tunable];
      if (const Timing* found = s.contest ? is_known(tunable.machine, tunable.problem) : nullptr) {
        out.push_back({w, true, *found});
        continue;
      }
      for (const std::string& choice : tunable.choices) out.push_back({w, &choice == tunable.choices.data(), {tunable.machine, tunable.problem, choice}});
    }
    return out;
  }

  // False if the time was used up before there was an answer.
  bool decide(const Subject& s) {
    if (is_known(s.machine, s.problem)) return true;  // an earlier contest answered it
    Bench bench(backend_, *stream_, s);
    if (!bench.fits()) return true;
    constexpr double sample = 200e-6;  // long compared with the resolution of the device's clock
    const auto together = static_cast<int64_t>(std::clamp(sample / std::max(s.seconds, 1e-9), 1.0, static_cast<double>(Bench::max_together)));
    std::vector<Candidate> candidates;
    size_t largest = 0;
    for (Candidate& c : candidates_of(s)) {
      if (!attempt(candidates.empty(), [&] { c.resolved = resolve(s, c); })) continue;
      largest = std::max(largest, c.resolved.scratch);
      candidates.push_back(std::move(c));
    }
    const MemoryBlock scratch = bench.reserve_bytes(largest);
    // Records the work, so that the time of starting it on the host is not measured.
    std::erase_if(candidates, [&](Candidate& c) {
      const Way& way = (*s.ways)[c.way];
      return !attempt(&c == candidates.data(), [&] {
        bench.work(way, c, scratch.data(), 1);  // loads what the library loads on first use
        c.recording = stream_->record([&] { bench.work(way, c, scratch.data(), together); });
      });
    });
    // Candidates take turns, so that a change of the GPU's clock rate affects all of them. The first round warms up.
    constexpr int rounds = 8;
    int measured = -1;
    for (; measured < rounds && !is_over(); ++measured) {
      double best = std::numeric_limits<double>::infinity();
      for (Candidate& c : candidates) {
        const double now = bench.seconds([&] { c.recording ? stream_->replay(*c.recording) : bench.work((*s.ways)[c.way], c, scratch.data(), together); });
        if (measured >= 0) c.seconds = std::min(c.seconds, now);
        best = std::min(best, c.seconds);
      }
      constexpr double hopeless = 1.5;
      if (measured >= 0) {
        std::erase_if(candidates, [&](const Candidate& c) {
          const bool drop = &c != candidates.data() && c.seconds > best * hopeless;
          if (drop) tell(s, c, together);
          return drop;
        });
      }
    }
    constexpr int enough = 2;
    if (measured < enough) return false;
    for (const Candidate& c : candidates) tell(s, c, together);
    answer(s, candidates);
    return true;
  }

  void tell(const Subject& s, const Candidate& c, int64_t together) {
    tell_({s.problem, (*s.ways)[c.way].implementation, c.trial.choice, c.seconds / static_cast<double>(together)});
  }

  void answer(const Subject& s, const std::vector<Candidate>& candidates) {
    constexpr double noise = 0.99;
    // The fastest choice of each way. It must beat the usual choice by more than noise.
    std::vector<const Candidate*> best(s.ways->size(), nullptr);
    for (bool usual : {true, false}) {
      for (const Candidate& c : candidates) {
        const Candidate*& of = best[c.way];
        if (c.usual == usual && (of == nullptr || c.seconds < of->seconds * (of->usual ? noise : 1))) of = &c;
      }
    }
    const Candidate* fastest = best[0];
    for (const Candidate* c : best) {
      if (c != nullptr && c->seconds < fastest->seconds * (fastest == best[0] ? noise : 1)) fastest = c;
    }
    if (!fastest->trial.problem.empty()) note(fastest->trial);
    if (s.contest) note({s.machine, s.problem, (*s.ways)[fastest->way].implementation});
  }

  const Backend& backend_;
  std::span<const Timing> known_;
  FunctionRef<void(const Measured&)> tell_;
  Clock::time_point end_;
  std::unique_ptr<Stream> stream_;
  std::deque<std::vector<Way>> ways_;
  std::vector<Subject> subjects_;
  std::map<std::string, size_t, std::less<>> by_problem_;
  std::vector<Timing> out_;
};

}  // namespace

std::string machine(std::string_view device) {
  const auto [devices, number] = backend::find_device(device);
  if (devices == nullptr) fail(Code::device, "there is no device \"{}\"", device);
  return devices->open(number, {}, {})->machine();
}

std::vector<Timing> time(const plan::Plan& plan, const Placement& place, std::span<const plan::TimedStep> steps, std::span<const Timing> known, double seconds,
                         FunctionRef<void(const Measured&)> tell) {
  // Nothing is at these addresses. Kernels read no memory when they resolve.
  constexpr uintptr_t nowhere = 4096;
  Memory memory;
  for (const plan::Weight& w : plan.weights) {
    memory.weights.push_back(reinterpret_cast<const std::byte*>(nowhere));
    memory.weight_bytes.push_back(w.bytes);
  }
  for (const plan::Derived& d : plan.targets[place.target].derived) {
    memory.derived.push_back(reinterpret_cast<std::byte*>(nowhere));
    memory.derived_bytes.push_back(d.bytes);
  }
  std::vector<std::unique_ptr<Resolved>> functions;
  for (const plan::Function& f : plan.functions) {
    LoadedFunction loaded = load_function(plan, f, f.programs[place.target], *place.backend);
    std::vector<int64_t> usual;
    for (const plan::Symbol& s : f.symbols) usual.push_back(s.opt);
    functions.emplace_back();
    try {
      functions.back() = resolve(loaded, plan, memory, usual, inline_workers());
    } catch (const Error& e) {
      if (e.code != Code::invalid_input) throw;
      // The usual sizes contradict each other. The plan still runs at other sizes; this function is not timed.
    }
  }
  Timer timer(*place.backend, known, seconds, tell);
  for (const plan::TimedStep& t : steps) {
    if (t.target == place.target && functions[t.function] != nullptr) timer.add(t, *functions[t.function]);
  }
  return timer.run();
}

}  // namespace ingot::runtime
