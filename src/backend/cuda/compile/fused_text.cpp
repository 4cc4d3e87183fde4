#include "backend/cuda/compile/fused_text.h"

#include <algorithm>
#include <bit>

#include "backend/cuda/compile/kernel_text.h"
#include "backend/cuda/compile/tuning.h"
#include "backend/cuda/kernels/fused/run/tuning.h"
#include "backend/cuda/run/hardware.h"
#include "base/error.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::backend::cuda {

using Args = kernels::FusedCudaArgs;
using Variant = Args::Variant;

namespace {

constexpr int64_t narrow_limit = int64_t{INT32_MAX} + 1;

ir::Dim extent_of(const Walk& w, size_t from, size_t to) {
  ir::Dim n = 1;
  for (size_t g = from; g < to; ++g) n = n * w.groups[g].extent;
  return n;
}

class Chooser {
 public:
  // `any_address`: a kernel for units of several elements needs another one for single elements.
  Chooser(const FusedBody& body, const Walk& walk, const Tuning& tuning, bool any_address) : b_(body), w_(walk), t_(tuning), any_address_(any_address || walk.unit == 1) {}

  std::vector<Variant> run() {
    if (!w_.rows) {
      if (w_.across >= 0) {
        tiles();
        if (extent_of(w_, 0, w_.groups.size()).is_constant() && !may_be_wide()) return std::move(list_);
      }
      if (w_.unit > 1) points(w_.unit, false);
      if (any_address_) points(1, false);
      if (may_be_wide()) points(1, true);
    } else if (w_.columns) {
      columns(false);
      if (may_be_wide()) columns(true);
    } else {
      if (w_.unit > 1) rows(w_.unit);
      if (w_.unit == 1) rows(1);
      if (any_address_) reread(1, false);
      if (may_be_wide()) reread(1, true);
    }
    return std::move(list_);
  }

 private:
  bool may_be_wide() const {
    ir::Dim n = extent_of(w_, 0, w_.groups.size());
    return !n.is_constant() || n.value() >= narrow_limit;
  }

  Variant& add(Variant::Mapping mapping, int unit, int units, int threads) {
    Variant v;
    v.mapping = mapping;
    v.vector = static_cast<uint8_t>(unit);
    v.units = static_cast<uint8_t>(units);
    v.threads = static_cast<uint16_t>(threads);
    list_.push_back(v);
    return list_.back();
  }
  int tuned(int given, int usual) const { return given > 0 ? given : usual; }

  // Bodies with few loads need several units per thread to have enough in flight; with three or more, one is best (H200: 1.0 of the bandwidth of a copy).
  void points(int unit, bool wide) {
    size_t loads = 0;
    for (size_t k = 0; k < b_.code.size(); ++k) loads += b_.code[k].kind == Instruction::Kind::load && w_.level[k] == Level::element;
    int units = loads <= 1 ? 4 : loads == 2 ? 2 : 1;
    ir::Dim n = extent_of(w_, 0, w_.groups.size());
    // Small tensors: one unit per thread, so that all multiprocessors have work.
    if (n.is_constant() && n.value() / unit < hardware::h200_multiprocessors * compile_tuning::units_of_points) units = 1;
    add(Variant::points, unit, tuned(t_.units, units), tuned(t_.threads, 256)).wide = wide;
  }

  void tiles() {
    constexpr int threads = compile_tuning::tile_threads;
    add(Variant::tile, 1, static_cast<int>(Args::tile * Args::tile) / threads, threads).across = static_cast<uint8_t>(w_.across);
  }

  // Short strided rows: one thread each, adjacent rows on adjacent threads. Otherwise eight threads each, or more if there are few long rows.
  void columns(bool wide) {
    const ir::Dim length = extent_of(w_, w_.outer, w_.groups.size());
    const int64_t n = std::max<int64_t>(1, length.constant().value_or(INT64_MAX)), rows = extent_of(w_, 0, w_.outer).constant().value_or(INT64_MAX);
    constexpr int64_t resident = hardware::h200_multiprocessors * compile_tuning::threads_of_columns;
    int together = 8;
    while (together < 32 && n >= compile_tuning::min_row_of_lane * together && rows <= resident / (2 * together)) together *= 2;
    if (n <= compile_tuning::max_elements_of_thread && !(length == ir::Dim(0))) {  // registers hold a row that is not empty
      Variant& v = add(Variant::warp, 1, static_cast<int>(n), 128);
      v.lanes = 1;
      v.wide = wide;
      return;
    }
    Variant& v = add(Variant::column, 1, n <= 8 * together ? static_cast<int>((n + together - 1) / together) : 4, 32 * together);
    v.lanes = static_cast<uint16_t>(v.threads / 32);
    v.reread = true;
    v.wide = wide;
  }

  void reread(int unit, bool wide) {
    Variant& v = add(Variant::block, unit, unit >= 4 ? 2 : 4, compile_tuning::block_threads);
    v.reread = true;
    v.wide = wide;
  }

  // Rows too long for registers: the first pass keeps them in shared memory.
  void keep(int unit) {
    size_t bytes = 0, reductions = 0;
    for (size_t k : kept_loads(b_, w_)) bytes += ir::size_of(b_.operands[b_.code[k].operand]);
    for (const Instruction& i : b_.code) reductions += i.kind == Instruction::Kind::reduce;
    if (bytes == 0 || reductions * 32 * 16 > kernels::fused_cuda_tuning::static_shared) return;
    Variant& added = add(Variant::block, unit, tuned(t_.units, 1), tuned(t_.threads, hardware::max_threads));
    added.reread = true;
    added.kept = static_cast<uint16_t>(bytes);
  }

  // Rows that fit registers: of a few lanes, a warp, or a block.
  void rows(int unit) {
    ir::Dim length = extent_of(w_, w_.outer, w_.groups.size());
    size_t widest = 1;
    for (size_t k = 0; k < b_.operands.size(); ++k) widest = std::max(widest, w_.level_of_operand(k) == Level::element ? ir::size_of(b_.operands[k]) : 1);
    // Per thread 32 bytes of f32 or 64 of f16 (H200: the best or within 2% of it for softmax and norms of 4096).
    int units = std::max(1, (widest >= 4 ? 8 : 32) / unit);
    if (!length.is_constant()) {
      lanes(unit, 32, std::max(1, compile_tuning::max_elements_of_thread / unit));
      add(Variant::block, unit, std::max(1, (widest >= 4 ? 16 : 32) / unit), compile_tuning::block_threads).fitted = true;
      keep(unit);
      reread(unit, false);
      return;
    }
    int64_t n = std::max<int64_t>(1, (length.value() + unit - 1) / unit);
    if (n <= 32) {
      // Few lanes per row, so that each has as much in flight as above: for 12 vectors, four lanes with three.
      int count = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(n)));
      const int64_t rows = extent_of(w_, 0, w_.outer).constant().value_or(0), plenty = hardware::h200_multiprocessors * compile_tuning::threads_of_rows;
      while (unit > 1 && count > 1 && (n + count / 2 - 1) / (count / 2) * unit <= compile_tuning::max_elements_of_thread && rows * (count / 2) >= plenty) count /= 2;
      return lanes(unit, count, static_cast<int>((n + count - 1) / count));
    }
    if (n * unit <= tuned(t_.warp_row, compile_tuning::warp_row)) return lanes(unit, 32, static_cast<int>((n + 31) / 32));
    while (units > 1 && n < int64_t{compile_tuning::min_row_threads} * units) units /= 2;
    units = tuned(t_.units, units);
    while (n > int64_t{compile_tuning::block_threads} * units && 2 * units * unit <= compile_tuning::max_elements_of_thread) units *= 2;
    if (n > int64_t{hardware::max_threads} * units) {
      keep(unit);
      reread(unit, false);
      return;
    }
    add(Variant::block, unit, units, static_cast<int>(((n + units - 1) / units + 31) / 32 * 32));
  }

  void lanes(int unit, int count, int units) { add(Variant::warp, unit, units, 128).lanes = static_cast<uint16_t>(count); }

  const FusedBody& b_;
  const Walk& w_;
  const Tuning& t_;
  const bool any_address_;
  std::vector<Variant> list_;
};

// False if all vectors start at aligned addresses: the operands do, and all sizes and strides are known, for which the walk has chosen the vectors.
bool may_be_unaligned(const FusedBody& body, const std::vector<StridedLayout>& layouts, const Walk& walk, const std::vector<bool>& aligned) {
  auto is_known = [](const ir::Dims& dims) { return std::all_of(dims.begin(), dims.end(), [](const ir::Dim& d) { return d.is_constant(); }); };
  if (!is_known(body.outer) || !is_known(body.row)) return true;
  for (size_t k = 0; k < layouts.size(); ++k) {
    if (walk.vector[k] != 0 && !(k < aligned.size() && aligned[k] && is_known(layouts[k].strides))) return true;
  }
  return false;
}

}  // namespace

Emitted emit(const FusedBody& body, const std::vector<StridedLayout>& layouts, const Tuning& tuning, const std::vector<bool>& aligned, ParametersOf of) {
  size_t rank = body.outer.size() + body.row.size();
  if (rank < 1 || rank > kernels::max_domain_rank || body.operands.size() > kernels::max_operands) {
    fail(Code::unsupported, "a fused body with {} axes and {} operands is too large", rank, body.operands.size());
  }
  Walk walk = make_walk(body, layouts);
  Args args;
  args.rank = static_cast<uint8_t>(rank);
  args.row_rank = static_cast<uint8_t>(body.row.size());
  args.stores = static_cast<uint8_t>(body.stores.size());
  args.outer = static_cast<uint8_t>(walk.outer);
  for (size_t k = 0; k < body.operands.size(); ++k) {
    args.operands.push_back({body.operands[k], static_cast<uint8_t>(layouts[k].dims.size() - rank), walk.guarded[k] != 0, walk.vector[k] != 0});
  }
  for (const Walk::Group& g : walk.groups) args.groups.push_back({g.first, g.last});
  args.variants = Chooser(body, walk, tuning, may_be_unaligned(body, layouts, walk, aligned)).run();
  Numbers numbers(args, of == ParametersOf::rows);
  Emitted out;
  PrintedKernels printed;
  for (size_t v = 0; v < args.variants.size(); ++v) {
    const Variant& variant = args.variants[v];
    printed.kernels.push_back({std::to_string(v), fmt::format("__launch_bounds__({})", variant.threads), kernel_text(body, layouts, walk, variant, numbers, out.sizes)});
  }
  args.sizes = static_cast<uint32_t>(out.sizes.size());
  size_t bytes = 8 * (1 + body.operands.size() + args.numbers.size());
  if (bytes > hardware::parameter_bytes)
    fail(Code::unsupported, "a fused body with {} operands and {} sizes and strides has more parameters than a kernel may have", body.operands.size(), args.numbers.size());
  printed.shared = fmt::format("struct @P {{ u64 status; void* pointer[{}]; i64 number[{}]; }};\n", body.operands.size(), std::max<size_t>(1, args.numbers.size()));
  out.code = printed.unit(printed.name("fused"), of);
  args.name = out.code.name;
  out.arguments = kernels::serialise(args);
  return out;
}

}  // namespace ingot::backend::cuda
