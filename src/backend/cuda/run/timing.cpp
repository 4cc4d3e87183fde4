// Times cuBLASLt's algorithms for a GEMM on this GPU. Its first choice is often not the fastest: by up to an eighth on an H200.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "backend/cuda/run/cublaslt.h"
#include "backend/cuda/run/gpu.h"
#include "base/error.h"

namespace ingot::backend::cuda {

namespace {

using Clock = std::chrono::steady_clock;

// Elements spanned by all its matrices; 0 if they are in another order.
int64_t elements(const Problem::Matrix& m, int64_t batches) {
  int64_t down = m.transposed ? m.columns : m.rows, across = m.transposed ? m.rows : m.columns;
  return m.batch < 0 ? 0 : (across - 1) * m.leading + down + (batches - 1) * m.batch;
}

// Memory to run one problem repeatedly.
class Bench {
 public:
  Bench(const DevicePtr& device, GpuStream& stream, const Problem& p) : stream_(stream), problem_(p), start_(device, true), stop_(device, true) {
    const auto in = static_cast<int64_t>(ir::size_of(static_cast<ir::DType>(p.in))), out = static_cast<int64_t>(ir::size_of(static_cast<ir::DType>(p.out)));
    const auto cache = static_cast<int64_t>(device->properties().l2);
    constexpr int64_t apart = 256;
    a_bytes_ = (elements(p.a, p.batches) * in + apart - 1) / apart * apart;
    copies_ = std::clamp<int64_t>(2 * cache / std::max<int64_t>(a_bytes_, 1), 1, most_together);
    const int64_t sizes[] = {a_bytes_ * copies_, elements(p.b, p.batches) * in, p.residual ? elements(p.c, p.batches) * out : 0, elements(p.d, p.batches) * out,
                             p.bias ? p.d.rows * out : 0};
    int64_t all = 0;
    for (int64_t bytes : sizes) all += bytes;
    // Leave enough memory for others.
    if (a_bytes_ == 0 || sizes[1] == 0 || sizes[3] == 0 || static_cast<size_t>(all) > device->free_memory() / 2) return;
    for (size_t k = 0; k < std::size(sizes); ++k) {
      operands_[k] = DeviceMemory(device, static_cast<size_t>(sizes[k]));
      operands_[k].fill(0x3c, stream.handle());  // small numbers in every type: zeros would use less power, and so less time
    }
    fits_ = true;
  }
  bool fits() const { return fits_; }

  void work(Product& product, Address workspace, int64_t times) {
    auto& [a, b, c, d, bias] = operands_;
    for (int64_t i = 0; i < times; ++i) {
      // The library's A is usually a weight. In a model it is not in the cache, as other weights have been read since
      // its last use, so use copies in rotation.
      Address from = a.address() + static_cast<Address>(turn_++ % copies_ * a_bytes_);
      product.run(1, problem_.residual ? 1 : 0, from, b.address(), problem_.residual ? c.address() : d.address(), d.address(), bias.address(), workspace, stream_.handle());
    }
  }
  double seconds(FunctionRef<void()> work) {
    start_.record(stream_.handle());
    work();
    stop_.record(stream_.handle());
    stop_.synchronize();
    return Event::seconds(start_, stop_);
  }

  static constexpr int64_t most_together = 32;

 private:
  GpuStream& stream_;
  const Problem& problem_;
  Event start_, stop_;
  std::array<DeviceMemory, 5> operands_;
  int64_t a_bytes_ = 0, copies_ = 1, turn_ = 0;
  bool fits_ = false;
};

// An algorithm. Its work is recorded as a graph, so that the host's launch time is not measured.
struct Candidate {
  size_t rank;
  std::unique_ptr<Product> product;
  DeviceMemory workspace;
  std::unique_ptr<Recording> recording;
  double seconds = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<Timing> Products::time(std::span<const Timing> known, double budget) const {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(budget, 1e6)));
  auto is_over = [&] { return Clock::now() >= end; };
  std::vector<Timing> out;
  struct Wanted {
    Problem problem;
    std::string text;
    double times, seconds;
  };
  std::vector<Wanted> wanted;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [p, asked] : known_) {
      constexpr int64_t usual = 16;  // callers with less aligned pointers are not worth timing
      if (p.alignment < usual) continue;
      std::string text = p.text();
      auto found = std::find_if(known.begin(), known.end(), [&](const Timing& t) { return t.machine == machine_ && t.problem == text; });
      if (found != known.end()) {
        out.push_back(*found);
      } else {
        wanted.push_back({p, std::move(text), static_cast<double>(asked.times), 0});
      }
    }
  }
  if (wanted.empty() || is_over()) return out;
  Device::Use use(*device_);
  Unrecorded apart;
  CudaStream own(device_);
  GpuStream stream(device_);
  stream.set_stream(own.handle());

  // Time the default algorithm of each: the slowest problems are worth most.
  for (Wanted& w : wanted) {
    if (is_over()) return out;
    Bench bench(device_, stream, w.problem);
    if (!bench.fits()) continue;
    Product product(*this, w.problem);
    DeviceMemory workspace(device_, product.workspace());
    bench.work(product, workspace.address(), 1);
    w.seconds = bench.seconds([&] { bench.work(product, workspace.address(), 1); });
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& x, const Wanted& y) { return x.seconds * x.times > y.seconds * y.times; });

  for (const Wanted& w : wanted) {
    if (is_over()) break;
    Bench bench(device_, stream, w.problem);
    if (!bench.fits()) continue;
    constexpr double sample = 200e-6;  // long compared to an event's resolution
    auto together = static_cast<int64_t>(std::clamp(sample / std::max(w.seconds, 1e-9), 1.0, static_cast<double>(Bench::most_together)));
    std::vector<Candidate> candidates;
    auto first = std::make_unique<Product>(*this, w.problem);
    std::vector<Algorithm> algorithms = ask(w.problem, *first, offers);
    for (size_t rank = 0; rank < algorithms.size(); ++rank) {
      Candidate c{rank, std::make_unique<Product>(*this, w.problem), DeviceMemory(device_, algorithms[rank].workspace), nullptr};
      c.product->take(algorithms[rank]);
      try {
        bench.work(*c.product, c.workspace.address(), 1);  // triggers lazy loading
        c.recording = stream.record([&] { bench.work(*c.product, c.workspace.address(), together); });
      } catch (const Error&) {
        if (rank == 0) throw;  // nothing works here
        continue;              // the library lists algorithms that it then refuses
      }
      candidates.push_back(std::move(c));
    }
    // Interleaved, so that changes of the clock affect all alike. The first round warms up.
    constexpr int rounds = 8;
    int measured = -1;
    for (; measured < rounds && !is_over(); ++measured) {
      double best = std::numeric_limits<double>::infinity();
      for (Candidate& c : candidates) {
        double s = bench.seconds([&] { stream.replay(*c.recording); });
        if (measured >= 0) c.seconds = std::min(c.seconds, s);
        best = std::min(best, c.seconds);
      }
      constexpr double hopeless = 1.5;
      if (measured >= 0) std::erase_if(candidates, [&](const Candidate& c) { return c.rank != 0 && c.seconds > best * hopeless; });
    }
    constexpr int enough = 2;
    if (measured < enough) break;
    auto fastest = std::min_element(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) { return x.seconds < y.seconds; });
    constexpr double noise = 0.99;
    size_t rank = fastest->seconds < candidates[0].seconds * noise ? fastest->rank : 0;
    out.push_back({machine_, w.text, choice_of(rank)});
  }
  own.synchronize();
  return out;
}

}  // namespace ingot::backend::cuda
