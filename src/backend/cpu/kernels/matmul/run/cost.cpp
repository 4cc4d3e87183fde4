#include "backend/cpu/kernels/matmul/run/cost.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/cpu/run/hardware.h"

namespace ingot::kernels::matmul {

using conv::Cpu;
using ir::DType;

namespace {

double times(int64_t n, int64_t by) { return static_cast<double>((n + by - 1) / by); }

// The sizes of one product, in numbers; N in whole panels.
struct Numbers {
  double batches, m, of_b;
  Numbers(const ProductSizes& s, const Cpu& cpu) {
    // In order, the choice is that for many rows: costs grow alike with all other sizes.
    m = static_cast<double>(s.in_order ? tuning::rows_in_order : s.m);
    batches = s.rows / static_cast<double>(std::max<int64_t>(1, s.m));
    of_b = times(s.n, 2 * cpu.lanes) * static_cast<double>(2 * cpu.lanes) * static_cast<double>(s.k);
  }
  double tiles(int64_t rows) const { return std::ceil(m / static_cast<double>(rows)); }
  double blocks(int64_t rows) const { return std::max(1.0, std::round(m / static_cast<double>(rows))); }
  double products() const { return m * of_b; }
  // Cycles to end the vectors of results of a half type.
  double ends(const ProductSizes& s, const Cpu& cpu, double cycles) const { return s.rounds || ir::size_of(s.panel) < 4 ? m * times(s.n, 2 * cpu.lanes) * 2 * cycles : 0; }
};

// Packing B in each run, of one product.
double packing(const ProductSizes& s, const Numbers& x, const Cpu& cpu) {
  return s.packed ? 0 : x.of_b * static_cast<double>(ir::size_of(s.panel)) / (tuning::rate_of_packing * cpu.machine.l3) + cpu.cycles(tuning::begun_product);
}

bool is_long(const ProductSizes& s) { return s.k > tuning::max_short_terms || s.n > tuning::max_short_columns; }

}  // namespace

double peak_of(const Machine& m, DType type) { return type == DType::bf16 ? m.bf16 : type == DType::f64 ? m.f32 / 2 : m.f32; }

double cost_of_tiles(const ProductSizes& s, const Cpu& cpu) {
  const Numbers x(s, cpu);
  if (s.image) {
    conv::ConvSizes image = *s.image;
    if (s.panel != DType::f32) image.n = static_cast<int64_t>(times(image.n, 2 * cpu.lanes)) * 2 * cpu.lanes;  // only tiles of float32 leave out half of a panel
    // Rows of half types are widened as they are copied; copies of float64 take twice as long.
    const auto k = static_cast<double>(image.k), runs = k / static_cast<double>(image.run);
    const double copies = s.panel == DType::f32 ? 0 : s.panel == DType::f64 ? runs * conv::tuning::copied_tap + k * conv::tuning::copied_element : runs * tuning::widened_run;
    return conv::cost_of_rows(image, cpu) +
           (cpu.cycles(image.outputs * static_cast<double>(image.groups) * copies + x.batches * x.ends(s, cpu, tuning::end_of_half)) + x.batches * packing(s, x, cpu)) /
               static_cast<double>(cpu.threads);
  }
  conv::ConvSizes sizes;
  sizes.outputs = x.batches * x.m, sizes.n = s.n, sizes.k = sizes.run = s.k, sizes.mapped = false;
  const double widened = s.panel == DType::f32 ? 0
                         : s.panel == DType::i8 && x.m > static_cast<double>(tuning::narrow_rows)
                             ? x.blocks(tuning::block_rows) * tuning::decoded_number
                             : x.tiles(tuning::widening_rows) * (s.panel == DType::i8 ? tuning::widened_int8 : tuning::widened_half);
  return conv::cost_of_rows(sizes, cpu) + x.batches * (cpu.cycles(widened * x.of_b + x.ends(s, cpu, tuning::end_of_half)) + packing(s, x, cpu)) / static_cast<double>(cpu.threads);
}

double cost_of_dots(const ProductSizes& s, const Cpu& cpu) {
  if (cpu.machine.dots == 0) return conv::never;
  const Numbers x(s, cpu);
  const double decoded = s.panel == DType::i8 ? x.blocks(tuning::block_rows) * x.of_b * tuning::decoded_number : 0;
  return x.batches * (x.products() / cpu.machine.dots + cpu.cycles(decoded + x.ends(s, cpu, tuning::end_of_dots)) + packing(s, x, cpu)) / static_cast<double>(cpu.threads);
}

double cost_of_matrix(const ProductSizes& s, const Cpu& cpu) {
  if (cpu.machine.bf16 <= std::max(cpu.machine.f32, cpu.machine.dots)) return conv::never;
  const Numbers x(s, cpu);
  constexpr int64_t side = backend::cpu::hardware::matrix_rows;
  const double read = x.blocks(tuning::matrix_block_rows) * x.of_b;
  const double products = x.tiles(side) * static_cast<double>(side) * x.of_b / cpu.machine.bf16,
               waits = tuning::wait_of_matrix * read * static_cast<double>(ir::size_of(s.panel)) / cpu.machine.memory;
  const double decoded = s.panel == DType::i8 ? read * tuning::decoded_number : 0;
  return cpu.cycles(tuning::begun_matrix) +
         x.batches * (products + waits + cpu.cycles(decoded + x.ends(s, cpu, tuning::end_of_matrix)) + packing(s, x, cpu)) / static_cast<double>(cpu.threads);
}

double cost_of_small(const ProductSizes& s, const Cpu& cpu) {
  const int64_t most = std::max({s.m, s.n, s.k});
  if (most > tuning::max_small) return conv::never;
  const double products = s.rows * times(s.n, cpu.lanes) * static_cast<double>(s.k);
  return (cpu.vectors(products * tuning::small_vector) + s.rows / static_cast<double>(std::max<int64_t>(1, s.m)) * cpu.cycles(tuning::small_product)) /
         static_cast<double>(cpu.threads);
}

double cost_of_short(const ProductSizes& s, const Cpu& cpu) {
  if (is_long(s) || ir::size_of(s.panel) < sizeof(float)) return conv::never;
  const int64_t lanes = s.panel == DType::f64 ? cpu.lanes / 2 : cpu.lanes;
  const double vectors = times(s.n, lanes), batches = s.rows / static_cast<double>(std::max<int64_t>(1, s.m));
  return (cpu.vectors(s.rows * vectors * static_cast<double>(s.k) * tuning::short_vector) + cpu.cycles(s.rows * vectors * tuning::short_end + batches * tuning::begun_short)) /
         static_cast<double>(cpu.threads);
}

double cost_of_short_matrix(const ProductSizes& s, const Cpu& cpu) {
  if (cpu.machine.bf16 <= std::max(cpu.machine.f32, cpu.machine.dots) || is_long(s)) return conv::never;
  constexpr int64_t side = backend::cpu::hardware::matrix_rows;
  const double columns = times(s.n, side), steps = times(s.k, 2 * side), batches = s.rows / static_cast<double>(std::max<int64_t>(1, s.m));
  const double of_row = columns * (steps * tuning::short_matrix_step + tuning::short_matrix_end);
  return (cpu.cycles(s.rows * of_row + batches * tuning::begun_short_matrix) + batches * static_cast<double>(s.n * s.k) * tuning::packed_short / cpu.machine.clock) /
         static_cast<double>(cpu.threads);
}

}  // namespace ingot::kernels::matmul
