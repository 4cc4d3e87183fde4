// Scan, sort, scatter, small matrices and Fourier transforms on CUDA: compiled without a GPU and, with one, compared with the CPU's kernels. INGOT_TEST_ALL=1: every type.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "backend/compiler.h"
#include "backend/cpu/kernels/kernel_test.h"
#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/fourier/run/fourier_launches.h"
#include "backend/cuda/kernels/fused/fused_cases_test.h"
#include "backend/cuda/kernels/grid_sample/run/grid_sample_launches.h"
#include "backend/cuda/kernels/grid_sample/run/tuning.h"
#include "backend/cuda/kernels/scan/run/scan_launches.h"
#include "backend/cuda/kernels/scatter/run/scatter_launches.h"
#include "backend/cuda/kernels/small_matrix/run/small_matrix_launches.h"
#include "backend/cuda/kernels/sort/run/sort_launches.h"
#include "backend/cuda/run/gpu.h"
#include "base/parallel.h"
#include "kernels/fourier/run/fourier_args.h"
#include "kernels/fourier/run/fourier_checks.h"
#include "kernels/grid_sample/run/grid_sample_args.h"
#include "kernels/grid_sample/run/grid_sample_checks.h"
#include "kernels/scan/run/scan_args.h"
#include "kernels/scan/run/scan_checks.h"
#include "kernels/scatter/run/scatter_args.h"
#include "kernels/scatter/run/scatter_checks.h"
#include "kernels/small_matrix/run/small_matrix_args.h"
#include "kernels/small_matrix/run/small_matrix_checks.h"
#include "kernels/sort/run/sort_args.h"
#include "kernels/sort/run/sort_checks.h"

namespace ingot::backend::cuda {
namespace {

using ir::DType;
using kernels::FourierArgs;
using kernels::GridSampleArgs;
using kernels::ScanArgs;
using kernels::ScatterArgs;
using kernels::SmallMatrixArgs;
using kernels::SortArgs;

struct Step {
  std::string name, kernel;
  std::vector<std::byte> constants;
  std::vector<HostTensor> tensors;
  size_t writes = 1;
  bool exact = true;
};

std::vector<DType> dtypes(bool all) {
  if (!all) return {DType::f32, DType::i64};
  return {DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
}

bool everything() {
  const char* all = std::getenv("INGOT_TEST_ALL");
  return all != nullptr && std::string(all) == "1";
}

// Ties, signed zeros, infinities and NaN in short tensors; plain numbers in long ones, where a NaN would spread to all results.
HostTensor numbers(DType t, const std::vector<int64_t>& dims, uint32_t seed, bool special, std::vector<size_t> order = {}, int64_t gap = 1) {
  HostTensor out(t, dims, std::move(order), gap);
  std::mt19937 random(seed);
  const double odd[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 2};
  for (size_t e = 0; e < out.elements(); ++e) {
    double v = static_cast<double>(random() % 2001) / 1000.0 - 1.0;
    if (!ir::is_float(t)) v = static_cast<double>(static_cast<int64_t>(random() % 200) - 100);
    if (t == DType::i64 && random() % 4 == 0) v *= 9e15;
    if (ir::is_float(t) && special && random() % 5 == 0) v = odd[random() % 8];
    out.set(e, v);
  }
  return out;
}

HostTensor indices(const std::vector<int64_t>& dims, int64_t below, uint32_t seed, bool wrap, std::vector<size_t> order = {}) {
  HostTensor out(DType::i64, dims, std::move(order));
  std::mt19937 random(seed);
  for (size_t e = 0; e < out.elements(); ++e) {
    int64_t v = below == 0 ? 0 : static_cast<int64_t>(random() % static_cast<uint64_t>(below));
    out.set(e, static_cast<double>(wrap && random() % 3 == 0 ? v - below : v));
  }
  return out;
}

std::vector<Step> scan_steps(bool all) {
  std::vector<Step> out;
  using Kind = ScanArgs::Kind;
  auto add = [&](Kind kind, DType t, std::vector<int64_t> dims, uint8_t axis, bool special, std::vector<size_t> order = {}) {
    if (kind == Kind::logsumexp && !ir::is_float(t)) return;
    HostTensor in = numbers(t, dims, static_cast<uint32_t>(out.size()), special, order, order.empty() ? 1 : 2), result(t, dims);
    // Products of a thousand numbers around 1 stay finite.
    if (kind == Kind::prod && ir::is_float(t) && !special) {
      for (size_t e = 0; e < in.elements(); ++e) in.set(e, 1 + in.get(e) / 64);
    }
    bool exact = !ir::is_float(t) || kind == Kind::max || kind == Kind::min;
    std::string name = fmt::format("scan {} {} [{}] axis {}", static_cast<int>(kind), ir::name_of(t), fmt::join(dims, ", "), axis);
    out.push_back({name, "scan", serialise(ScanArgs{kind, axis}), {in, result}, 1, exact});
  };
  for (DType t : dtypes(all)) {
    for (Kind kind : {Kind::sum, Kind::prod, Kind::max, Kind::min, Kind::logsumexp}) {
      add(kind, t, {3, 37}, 1, true);
      add(kind, t, {5, 70, 3}, 1, true, {2, 0, 1});
      add(kind, t, {3000, 7}, 1, false);
      add(kind, t, {20000}, 0, false);  // several blocks per line
      if (t != DType::f32 && t != DType::i64) continue;
      for (int64_t n : {0, 1, 255, 256, 2047, 2048, 2049, 5000}) add(kind, t, {2, n}, 1, false);
      add(kind, t, {33, 2100}, 0, false);  // adjacent lines, a thread each
      add(kind, t, {0, 4}, 1, false);
      add(kind, t, {}, 0, false);
      add(kind, t, {1 << 20}, 0, false);
    }
  }
  return out;
}

std::vector<Step> sort_steps(bool all) {
  std::vector<Step> out;
  auto add = [&](DType t, std::vector<int64_t> dims, uint8_t axis, int64_t k, bool down, bool special, std::vector<size_t> order = {}) {
    HostTensor in = numbers(t, dims, static_cast<uint32_t>(out.size()), special, order, order.empty() ? 1 : 2);
    std::vector<int64_t> first = dims;
    if (!dims.empty()) first[axis] = std::min(k, dims[axis]);
    std::string name = fmt::format("sort {} [{}] axis {}, {} of them{}", ir::name_of(t), fmt::join(dims, ", "), axis, k, down ? ", down" : "");
    out.push_back({name, "sort", serialise(SortArgs{axis, down}), {in, HostTensor(t, first), HostTensor(DType::i64, first)}, 2});
  };
  constexpr int64_t whole = int64_t{1} << 40;
  for (DType t : dtypes(all)) {
    for (bool down : {false, true}) {
      add(t, {3, 37}, 1, whole, down, true);
      add(t, {3, 37}, 1, 5, down, true);
      add(t, {2, 700, 3}, 1, whole, down, true, {1, 2, 0});
      add(t, {2, 5000}, 1, whole, down, true);
      add(t, {2, 50257}, 1, 50, down, false);
      if (t != DType::f32 && t != DType::i64) continue;
      for (int64_t n : {0, 1, 2, 127, 128, 129, 2047, 2048, 2049, 4096, 6145, 10240, 14337}) add(t, {2, n}, 1, whole, down, true);
      for (int64_t k : {0, 1, 2047, 2048, 2049, 3000, 9999}) add(t, {3, 10000}, 1, k, down, true);
      add(t, {9000, 2}, 0, 4000, down, true);
      add(t, {}, 0, 1, down, false);
      add(t, {0, 5}, 1, 5, down, false);
      add(t, {300000}, 0, whole, down, true);
    }
  }
  return out;
}

std::vector<Step> scatter_steps(bool all) {
  std::vector<Step> out;
  using Kind = ScatterArgs::Kind;
  auto exact = [](Kind kind, DType t) { return !ir::is_float(t) || kind == Kind::set || kind == Kind::min || kind == Kind::max; };
  // out[.., index along `axes`, ..] = updates
  auto add = [&](Kind kind, DType t, std::vector<int64_t> dims, std::vector<uint8_t> axes, std::vector<int64_t> index, uint8_t position, bool special) {
    ScatterArgs args{kind, true, position, axes};
    std::vector<int64_t> of_updates;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (std::find(axes.begin(), axes.end(), d) == axes.end()) of_updates.push_back(dims[d]);
    }
    of_updates.insert(of_updates.begin() + position, index.begin(), index.end());
    auto seed = static_cast<uint32_t>(out.size());
    Step s{fmt::format("scatter {} {} [{}] by [{}]", static_cast<int>(kind), ir::name_of(t), fmt::join(dims, ", "), fmt::join(index, ", ")), "scatter", serialise(args), {}};
    s.tensors.push_back(numbers(t, of_updates, seed, special));
    for (uint8_t a : axes) s.tensors.push_back(indices(index, dims[a], ++seed * 7, true));
    s.tensors.push_back(numbers(t, dims, seed, special));
    s.exact = exact(kind, t);
    out.push_back(std::move(s));
  };
  auto along = [&](Kind kind, DType t, std::vector<int64_t> dims, uint8_t axis, std::vector<int64_t> index, bool special) {
    auto seed = static_cast<uint32_t>(out.size());
    Step s{fmt::format("scatter_along {} {} [{}] by [{}] on {}", static_cast<int>(kind), ir::name_of(t), fmt::join(dims, ", "), fmt::join(index, ", "), axis),
           "scatter_along",
           serialise(ScatterArgs{kind, false, 0, {axis}}),
           {}};
    std::vector<size_t> transposed;
    for (size_t d = dims.size(); d-- > 0;) transposed.push_back(d);
    s.tensors.push_back(indices(index, dims.empty() ? 1 : dims[axis], seed * 7 + 1, false, transposed));
    s.tensors.push_back(numbers(t, index, seed, special));
    s.tensors.push_back(numbers(t, dims, seed + 1, special));
    s.exact = exact(kind, t);
    out.push_back(std::move(s));
  };
  for (DType t : dtypes(all)) {
    for (Kind kind : {Kind::set, Kind::add, Kind::mul, Kind::min, Kind::max}) {
      add(kind, t, {10, 4}, {0}, {25}, 0, true);
      along(kind, t, {6, 9}, 1, {5, 20}, true);
      if (kind == Kind::mul && t != DType::i64 && t != DType::f32) continue;
      add(kind, t, {7, 5, 6}, {0, 2}, {3, 40}, 1, false);
      add(kind, t, {10}, {0}, {5000}, 0, false);  // many updates per place
      if (t != DType::f32 && t != DType::i64) continue;
      add(kind, t, {1, 3}, {0}, {1}, 0, false);
      add(kind, t, {4, 3}, {0}, {0}, 0, false);
      add(kind, t, {4, 0}, {0}, {3}, 0, false);
      add(kind, t, {4, 3}, {1}, {}, 1, false);
      add(kind, t, {3}, {0}, {1}, 0, false);
      add(kind, t, {2, 3, 4, 5}, {0, 1, 2, 3}, {500}, 0, false);
      add(kind, t, {1000, 33}, {0}, {300}, 0, false);
      add(kind, t, {5, 40}, {0}, {30000}, 0, false);
      along(kind, t, {}, 0, {}, false);
      along(kind, t, {4}, 0, {0}, false);
      along(kind, t, {3, 40, 5}, 1, {3, 3000, 4}, false);
      along(kind, t, {20000}, 0, {50000}, false);
      along(kind, t, {1}, 0, {20000}, kind != Kind::add);
    }
  }
  return out;
}

// Matrices with a large diagonal, whose rows are in reverse order so that pivots move; batches that do not fill a block.
std::vector<Step> small_matrix_steps(bool all) {
  std::vector<Step> out;
  using Kind = SmallMatrixArgs::Kind;
  auto add = [&](SmallMatrixArgs args, DType t, std::vector<int64_t> batch, int64_t right = 0, std::vector<size_t> order = {}) {
    auto of = [&](std::vector<int64_t> dims) {
      dims.insert(dims.begin(), batch.begin(), batch.end());
      return dims;
    };
    const int64_t m = args.rows, n = args.columns;
    auto seed = static_cast<uint32_t>(out.size());
    HostTensor a = numbers(t, of({m, n}), seed, false, order, order.empty() ? 1 : 2);
    const bool reversed = args.kind != Kind::cholesky && args.kind != Kind::solve_triangular;
    const int64_t matrices = a.elements() == 0 ? 0 : static_cast<int64_t>(std::accumulate(batch.begin(), batch.end(), int64_t{1}, std::multiplies<>()));
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
      int64_t at = a.offset, rest = matrix;
      for (size_t d = batch.size(); d-- > 0; rest /= batch[d]) at += rest % batch[d] * a.strides[d];
      for (int64_t k = 0; k < std::min(m, n); ++k) {
        const auto place = static_cast<size_t>(at + (reversed ? m - 1 - k : k) * a.strides[batch.size()] + k * a.strides[batch.size() + 1]);
        a.set(place, a.get(place) + static_cast<double>(n));
      }
    }
    std::vector<HostTensor> tensors{a};
    auto result = [&](DType of_type, std::vector<int64_t> dims) { tensors.emplace_back(of_type, of(std::move(dims))); };
    if (args.inputs() == 2) tensors.push_back(numbers(t, of({n, right}), seed + 100, false));
    switch (args.kind) {
      case Kind::lu: result(t, {m, n}), result(DType::i32, {args.pivots()}), result(DType::i32, {}); break;
      case Kind::solve: result(t, {n, right}), result(DType::i32, {}); break;
      case Kind::inverse:
      case Kind::cholesky: result(t, {n, n}), result(DType::i32, {}); break;
      case Kind::determinant: result(t, {}), result(t, {}), result(t, {}); break;
      case Kind::solve_triangular: result(t, {n, right}); break;
      default: result(t, {m, args.wide()}), result(t, {args.wide(), n});
    }
    const size_t writes = tensors.size() - args.inputs();
    out.push_back({fmt::format("small matrix {} {} x {} {} [{}]", static_cast<int>(args.kind), m, n, ir::name_of(t), fmt::join(batch, ", ")), "small_matrix", serialise(args),
                   tensors, writes, false});
  };
  auto square = [](Kind kind, uint8_t n) { return SmallMatrixArgs{kind, n, n}; };
  for (DType t : {DType::f32, DType::f64}) {
    for (uint8_t n : all ? std::vector<uint8_t>{1, 2, 3, 4, 7, 8, 16, 17, 31, 32} : std::vector<uint8_t>{1, 4, 13, 32}) {
      if (!all && (n == 1 || n == 32) && t == DType::f64) continue;
      for (Kind kind : {Kind::inverse, Kind::determinant, Kind::cholesky}) add(square(kind, n), t, {3, 11});
      add(square(Kind::solve, n), t, {13}, 7);
      add(square(Kind::solve_triangular, n), t, {5}, 4);
    }
    add(SmallMatrixArgs{Kind::lu, 5, 9}, t, {7});
    add(SmallMatrixArgs{Kind::lu, 9, 5}, t, {}, 0, {1, 0});
    add(SmallMatrixArgs{Kind::solve_triangular, 6, 6, true, true}, t, {3, 3}, 1, {3, 0, 2, 1});
    add(SmallMatrixArgs{Kind::inverse, 3, 3}, t, {0});
    add(SmallMatrixArgs{Kind::qr, 7, 4}, t, {6});
    add(SmallMatrixArgs{Kind::qr, 7, 4, false, false, true}, t, {2}, 0, {2, 1, 0});
    add(SmallMatrixArgs{Kind::qr, 4, 7}, t, {5});
  }
  return out;
}

// Lengths that are done in shared memory and through scratch, by stages and as convolutions.
std::vector<Step> fourier_steps() {
  std::vector<Step> out;
  using Kind = ir::FourierKind;
  auto add = [&](Kind kind, DType t, std::vector<int64_t> batch, int64_t n, std::vector<size_t> order = {}) {
    auto of = [&](int64_t last) {
      std::vector<int64_t> dims = batch;
      dims.push_back(last);
      return dims;
    };
    const FourierArgs args{kind, 1, order == std::vector<size_t>{0, 2, 1}};  // the last of these cases are columns
    const int64_t half = n / 2 + 1, given = kind == Kind::to_real ? half : n, made = kind == Kind::of_real ? half : n;
    Step s{fmt::format("fourier {} {} [{}] of {}", static_cast<int>(kind), ir::name_of(t), fmt::join(batch, ", "), n), "fourier", serialise(args), {}};
    for (size_t i = 0; i < args.operands(); ++i) {
      const bool read = i < args.inputs();
      const auto seed = static_cast<uint32_t>(4 * out.size() + i);
      s.tensors.push_back(read ? numbers(t, of(given), seed, false, order, order.empty() ? 1 : 2) : HostTensor(t, of(made), order));
    }
    s.writes = args.operands() - args.inputs();
    s.exact = false;
    out.push_back(std::move(s));
  };
  for (DType t : {DType::f32, DType::f64}) {
    for (Kind kind : {Kind::pair, Kind::of_real, Kind::to_real}) {
      for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 30, 37, 64, 74, 97, 360, 1024, 1457, 2048}) add(kind, t, {3, 11}, n);
      for (int64_t n : {4095, 4096, 4097, 5120, 8202}) add(kind, t, {3}, n);
      add(kind, t, {}, 12);
      add(kind, t, {0}, 12);
      add(kind, t, {5, 4}, 22, {2, 0, 1});
      add(kind, t, {2, 2}, 3500, {1, 2, 0});
      for (int64_t n : {1, 2, 37, 64, 97, 360, 1024, 3072}) add(kind, t, {2, 13}, n, {0, 2, 1});  // columns
    }
  }
  return out;
}

// Points inside, outside and on the edges; channels as planes, in one vector, in several, and in some that no vector fits.
std::vector<Step> grid_sample_steps() {
  std::vector<Step> out;
  using Mode = GridSampleArgs::Mode;
  using Outside = GridSampleArgs::Outside;
  Mode mode = Mode::cubic;
  auto add = [&](Outside outside, bool corners, bool channels_last, std::vector<int64_t> x, std::vector<int64_t> points, std::vector<size_t> order = {}) {
    const auto seed = static_cast<uint32_t>(out.size());
    if (mode == Mode::linear) x[1] = std::min(x[1], kernels::sample::tuning::linear_channels);
    std::vector<int64_t> grid{x[0]}, to{x[0]};
    if (!channels_last) to.push_back(x[1]);
    for (int64_t n : points) grid.push_back(n), to.push_back(n);
    if (channels_last) to.push_back(x[1]);
    grid.push_back(2);
    HostTensor places(DType::f32, grid);
    for (size_t i = 0; i < static_cast<size_t>(places.elements()); ++i) places.set(i, static_cast<double>((i * 2654435761u + seed) % 193) / 64 - 1.5);
    Step s{fmt::format("grid_sample {} {} {} {} of [{}]", static_cast<int>(mode), static_cast<int>(outside), corners, channels_last, fmt::join(x, ", ")),
           "grid_sample",
           serialise(GridSampleArgs{mode, outside, corners, channels_last, 2}),
           {numbers(DType::f32, x, seed, false, order), places, HostTensor(DType::f32, to)}};
    s.exact = false;
    out.push_back(std::move(s));
  };
  for (Mode each : {Mode::cubic, Mode::linear}) {
    mode = each;
    for (Outside outside : {Outside::zeros, Outside::border, Outside::reflection}) {
      for (bool corners : {false, true}) {
        add(outside, corners, false, {2, 3, 8, 16}, {5, 13});
        add(outside, corners, true, {2, 8, 8, 16}, {5, 13}, {0, 2, 3, 1});
        add(outside, corners, false, {1, 20, 4, 8}, {300}, {0, 2, 3, 1});
      }
      add(outside, true, true, {2, 5, 1, 1}, {7}, {0, 2, 3, 1});
      add(outside, false, false, {3, 4, 1, 2}, {}, {0, 1, 3, 2});
      add(outside, false, false, {0, 4, 3, 2}, {5});
      add(outside, false, true, {2, 0, 3, 2}, {5});
    }
  }
  return out;
}

std::vector<Step> steps(bool all) {
  std::vector<Step> out = scan_steps(all);
  for (auto& more : {sort_steps(all), scatter_steps(all), small_matrix_steps(all), fourier_steps(), grid_sample_steps()}) out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Its last offer is the one by kernels of ingot's own.
Site site_of(const Step& s) {
  Site out{Plain{s.kernel, s.constants}};
  for (const HostTensor& t : s.tensors) {
    StridedLayout& w = out.operands.emplace_back(Operand{Role::input, t.dtype, {}}).layout;
    for (int64_t d : t.dims) w.dims.emplace_back(d);
    for (int64_t d : t.strides) w.strides.emplace_back(d);
  }
  return out;
}

std::vector<DeviceCode> compiled(const std::vector<Step>& list, int sm) {
  std::vector<CodeUnit> units;
  for (const Step& s : list) {
    const Site site = site_of(s);
    for (CodeUnit& u : compiler_for(cuda_target(sm)).offers(site, cuda_target(sm), {}).offers.back().emit().code) units.push_back(std::move(u));
  }
  return compiler_for(cuda_target(sm)).compile(units, cuda_target(sm));
}

std::vector<TensorRef> refs_of(std::vector<HostTensor>& tensors, const std::function<std::byte*(size_t)>& where) {
  std::vector<TensorRef> out;
  for (size_t k = 0; k < tensors.size(); ++k) {
    HostTensor& t = tensors[k];
    out.push_back({where(k), t.dtype, static_cast<int>(t.dims.size()), t.dims.data(), t.strides.data()});
  }
  return out;
}

void run_on_cpu(const Step& s, std::vector<HostTensor>& tensors) {
  kernels::run_kernel(s.kernel, s.constants, refs_of(tensors, [&](size_t k) { return tensors[k].bytes.data(); }));
}

// Runs the step `times` times on fresh copies; returns the written tensors of every run.
std::vector<std::vector<HostTensor>> run_on_gpu(const Step& s, const Gpu& gpu, int times) {
  std::vector<HostTensor> tensors = s.tensors;
  std::vector<DeviceMemory> memory;
  for (const HostTensor& t : tensors) memory.emplace_back(gpu.device(), std::max<size_t>(t.bytes.size(), 16));
  std::vector<TensorRef> refs = refs_of(tensors, [&](size_t k) { return reinterpret_cast<std::byte*>(memory[k].address()); });
  const RunKernel* kernel = gpu.find(s.kernel);
  auto loaded = kernel->load(s.constants, refs.size(), 0);
  auto stream = gpu.new_stream();
  Call call;
  call.operands = refs;
  call.constants = loaded.get();
  call.backend = &gpu;
  call.stream = stream.get();
  Resolved resolved = kernel->resolve(call);
  DeviceMemory scratch(gpu.device(), std::max<size_t>(resolved.scratch, 16));
  call.scratch = reinterpret_cast<std::byte*>(scratch.address());
  call.prepared = resolved.state.get();
  std::vector<std::vector<HostTensor>> out;
  for (int n = 0; n < times; ++n) {
    scratch.fill(static_cast<uint8_t>(0x5a + n));
    for (size_t k = 0; k < memory.size(); ++k) memory[k].copy_from(s.tensors[k].bytes.data(), s.tensors[k].bytes.size());
    gpu.device()->synchronize();
    kernel->run(call);
    stream->wait();
    std::vector<HostTensor> got(tensors.end() - static_cast<int64_t>(s.writes), tensors.end());
    for (size_t k = 0; k < got.size(); ++k) memory[memory.size() - s.writes + k].copy_to(got[k].bytes.data(), got[k].bytes.size());
    gpu.device()->synchronize();
    out.push_back(std::move(got));
  }
  return out;
}

// Both sides combine floats in double, in different orders; the CPU rounds a scatter's sums at each step. `size`: the largest intermediate number.
bool close(DType t, double got, double want, double terms, double size) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (got == want) return true;
  if (std::isinf(want) || std::isinf(got)) return false;
  double eps = t == DType::f64 ? 1.2e-16 : t == DType::f32 ? 6e-8 : t == DType::f16 ? 4.9e-4 : 3.9e-3;
  return std::fabs(got - want) <= eps * (terms + 4) * std::max(size, std::fabs(want));
}

size_t compare(const Step& s, const std::vector<HostTensor>& cpu, const std::vector<HostTensor>& got) {
  size_t compared = 0;
  // Approximate number of updates per place, each rounded.
  double terms = s.kernel == "scan" ? 4 : 4 + 8 * static_cast<double>(s.tensors[0].elements()) / std::max<double>(1, static_cast<double>(s.tensors.back().elements()));
  for (size_t k = 0; k < got.size(); ++k) {
    const HostTensor& want = cpu[cpu.size() - s.writes + k];
    size_t wrong = 0;
    double size = 1;
    for (size_t e = 0; e < want.elements(); ++e) {
      if (std::isfinite(want.get(e))) size = std::max(size, std::fabs(want.get(e)));
    }
    // A sum of this many terms in double.
    if (s.kernel == "scan" && want.dtype == DType::f64) terms = std::sqrt(static_cast<double>(want.elements()));
    for (size_t e = 0; e < want.elements() && wrong < 3; ++e, ++compared) {
      bool same = std::memcmp(got[k].bytes.data() + e * ir::size_of(want.dtype), want.bytes.data() + e * ir::size_of(want.dtype), ir::size_of(want.dtype)) == 0;
      if (same || (ir::is_float(want.dtype) && close(want.dtype, got[k].get(e), want.get(e), s.exact ? -4 : terms, size))) continue;
      ++wrong;
      ADD_FAILURE() << s.name << ", result " << k << " (" << ir::name_of(want.dtype) << "), element " << e << ": " << got[k].get(e) << " instead of " << want.get(e);
    }
  }
  return compared;
}

TEST(cuda_launches, every_kernel_compiles) {
  SKIP_WITHOUT(nvrtc);
  std::vector<Step> list = everything() ? steps(true) : some(steps(false), 2);
  for (int sm : everything() ? std::vector<int>{80, 90} : std::vector<int>{80}) {
    auto start = std::chrono::steady_clock::now();
    size_t kernels = 0;
    for (const DeviceCode& c : compiled(list, sm)) kernels += c.portable ? 0 : c.kernels.size();
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("sm_{}: {} kernels in {:.1f} s\n", sm, kernels, took.count());
    EXPECT_GT(kernels, everything() ? 45u : 30u);
  }
}

TEST(cuda_launches, run_like_the_cpu_and_the_same_each_time) {
  SKIP_WITHOUT(nvrtc);
  SKIP_WITHOUT(gpu);
  std::vector<Step> list = steps(everything());
  std::vector<DeviceCode> code = compiled(list, Device::open(0)->properties().sm);
  std::vector<CodeImage> images;
  for (const DeviceCode& c : code) images.push_back({c.portable, static_cast<uint32_t>(c.architecture), c.kernels, c.image});
  Gpu gpu(0, images);
  size_t compared = 0;
  for (const Step& s : list) {
    SCOPED_TRACE(s.name);
    std::vector<HostTensor> cpu = s.tensors;
    run_on_cpu(s, cpu);
    auto got = run_on_gpu(s, gpu, 2);
    compared += compare(s, cpu, got[0]);
    for (size_t k = 0; k < s.writes; ++k) EXPECT_EQ(got[0][k].bytes, got[1][k].bytes) << "another run gave other bits";
  }
  fmt::print("{} steps, {} elements compared\n", list.size(), compared);
}

// On the host, of the shorter steps: each kernel in one library of its own.
TEST(cuda_launches_emulated, run_like_the_cpu) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  const std::map<std::string, std::pair<decltype(RunKernel::load), kernels::CudaLaunches (*)(const Call&, const kernels::CudaMachine&)>> of = {
      {"scan", {kernels::load_scan, kernels::scan_cuda_launches}},
      {"sort", {kernels::load_sort, kernels::sort_cuda_launches}},
      {"scatter", {kernels::load_scatter, kernels::scatter_cuda_launches}},
      {"scatter_along", {kernels::load_scatter_along, kernels::scatter_along_cuda_launches}},
      {"small_matrix", {kernels::load_small_matrix, kernels::small_matrix_cuda_launches}},
      {"fourier", {kernels::load_fourier, kernels::fourier_cuda_launches}},
      {"grid_sample", {kernels::load_grid_sample, kernels::grid_sample_cuda_launches}}};
  size_t compared = 0;
  std::vector<Step> list = some(steps(false), 20);
  for (Step& s : some(fourier_steps(), 6)) list.push_back(std::move(s));  // they share six libraries
  for (Step& s : some(grid_sample_steps(), 8)) list.push_back(std::move(s));
  for (Step& s : list) {
    SCOPED_TRACE(s.name);
    constexpr size_t max_elements = 40000;  // elements
    if (std::any_of(s.tensors.begin(), s.tensors.end(), [](const HostTensor& t) { return t.elements() > max_elements; })) continue;
    const Site site = site_of(s);
    std::string text, name;
    std::vector<std::string> names;
    std::vector<std::string_view (*)()> libraries;
    for (const CodeUnit& u : compiler_for(cuda_target(90)).offers(site, cuda_target(90), {}).offers.back().emit().code) {
      for (const auto& library : u.libraries) {
        if (std::find(libraries.begin(), libraries.end(), library) != libraries.end()) continue;
        libraries.push_back(library);
        text = text.insert(name.empty() ? text.size() : text.find("extern \"C\" __global__"), library());
      }
      text += u.shared + u.text;
      name += u.name + " ";
      names.insert(names.end(), u.kernels.begin(), u.kernels.end());
    }
    std::vector<HostTensor> cpu = s.tensors, got = s.tensors;
    run_on_cpu(s, cpu);
    std::vector<HostTensor*> tensors;
    for (HostTensor& t : got) tensors.push_back(&t);
    const auto& [load, launches] = of.at(s.kernel);
    run_printed({{s.kernel, s.constants, {}}, name, text, names, load, launches}, tensors, {}, Where::early, 0, 4);
    got.erase(got.begin(), got.end() - static_cast<int64_t>(s.writes));
    compared += compare(s, cpu, got);
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, 20000u);
}

TEST(cuda_launches, an_index_out_of_range_is_told_and_not_written) {
  SKIP_WITHOUT(nvrtc);
  SKIP_WITHOUT(gpu);
  Step s{"scatter", "scatter", serialise(ScatterArgs{ScatterArgs::Kind::add, true, 0, {0}}), {}};
  s.tensors = {numbers(DType::f32, {3}, 1, false), HostTensor(DType::i64, {3}), HostTensor(DType::f32, {4})};
  const double index[] = {-4, 4, 1};
  for (size_t e = 0; e < 3; ++e) s.tensors[1].set(e, index[e]);
  std::vector<DeviceCode> code = compiled({s}, Device::open(0)->properties().sm);
  std::vector<CodeImage> images;
  for (const DeviceCode& c : code) images.push_back({c.portable, static_cast<uint32_t>(c.architecture), c.kernels, c.image});
  Gpu gpu(0, images);
  try {
    run_on_gpu(s, gpu, 1);
    FAIL() << "ran";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::invalid_input);
    EXPECT_EQ(e.message, "index 4 is out of range for an axis of size 4");
  }
}

// The launches follow from the sizes alone.
TEST(cuda_launches, few_long_lines_are_cut_and_short_ones_are_not) {
  std::vector<std::byte> constants = serialise(ScanArgs{ScanArgs::Kind::sum, 1});
  auto names = [&](int64_t lines, int64_t length) {
    ScanArgs args{ScanArgs::Kind::sum, 1};
    int64_t dims[] = {lines, length}, strides[] = {length, 1};
    std::vector<TensorRef> refs(2, {nullptr, DType::f32, 2, dims, strides});
    Call call;
    call.operands = refs;
    call.constants = &args;
    std::string out;
    for (const auto& l : kernels::scan_cuda_launches(call, {132}).list) out += fmt::format("{}:{} ", l.kernel, l.blocks);
    return out;
  };
  EXPECT_EQ(names(4, 1000), "scan_sum_f32_blocks:4 ");
  EXPECT_EQ(names(10000, 8), "scan_sum_f32_lines:40 ");
  EXPECT_EQ(names(1, 1 << 20), "scan_sum_f32_totals:512 scan_sum_f32_blocks:512 ");
  EXPECT_EQ(names(1, 1 << 22), "scan_sum_f32_totals:512 scan_sum_f32_blocks:512 ");
  EXPECT_EQ(names(3, 0), "");
}

// The result is empty, so its strides may map different indices to one place.
TEST(cuda_launches, nothing_is_scattered_into_nothing) {
  ScatterArgs along{ScatterArgs::Kind::set, false, 0, {0}}, by_index{ScatterArgs::Kind::set, true, 0, {0}};
  int64_t dims[] = {4, 4, 0}, strides[] = {0, 0, 1};
  std::vector<TensorRef> refs = {{nullptr, DType::i64, 3, dims, strides}, {nullptr, DType::f32, 3, dims, strides}, {nullptr, DType::f32, 3, dims, strides}};
  Call call;
  call.operands = refs;
  call.constants = &along;
  EXPECT_TRUE(kernels::scatter_along_cuda_launches(call, {132}).list.empty());
  refs[0] = {nullptr, DType::f32, 3, dims, strides};
  refs[1] = {nullptr, DType::i64, 1, dims, strides};
  call.constants = &by_index;
  EXPECT_TRUE(kernels::scatter_cuda_launches(call, {132}).list.empty());
}

}  // namespace
}  // namespace ingot::backend::cuda
