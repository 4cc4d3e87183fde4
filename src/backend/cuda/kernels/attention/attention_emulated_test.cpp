// Attention's kernels on the host and, if there is one, on a GPU: depths, layouts, masks, few and many queries per block, against a softmax in double.
#include <gtest/gtest.h>

#include <cstdlib>

#include <cmath>

#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/compile/local_bytes_test.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/nvrtc.h"
#include "backend/cuda/compile/prelude.h"
#include "backend/cuda/kernels/attention/attention_text.h"
#include "backend/cuda/kernels/attention/run/attention_launches.h"
#include "backend/cuda/kernels/fused/fused_cases_test.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;

struct Site {
  std::string name;
  DType type = DType::f16;
  int64_t b, h, s, t, d, e;
  bool causal = false, mask = false, joined = false;  // joined: heads side by side in the rows of one tensor
  bool columns = false;                               // the mask is one row, for all queries, and nothing in the first batch
  int multiprocessors = 1;                            // many: few queries a block
  bool shifted = false;
  int only = kernels::AttentionCudaArgs::by_sizes;  // the variant
  std::vector<int64_t> filled = {};                  // for each of the first batch axis: its keys
  int64_t shared = 1;                                // so many adjacent heads have the same keys and values: an axis of their own
};

void check(const Site& site, Where where) {
  SCOPED_TRACE(fmt::format("{}, way {}", site.name, static_cast<int>(where)));
  std::vector<HostTensor> tensors;
  auto add = [&](std::vector<int64_t> dims, DType type) {
    // [B, H, rows, columns], or as [B, rows, H, columns].
    std::vector<size_t> order = site.joined && dims[1] > 1 ? std::vector<size_t>{0, 2, 1, 3} : std::vector<size_t>{};
    tensors.emplace_back(type, std::move(dims), order);
    tensors.back().fill(static_cast<uint32_t>(3 + tensors.size()), true);
  };
  add({site.b, site.h, site.s, site.d}, site.type);
  add({site.b, site.h, site.t, site.d}, site.type);
  add({site.b, site.h, site.t, site.e}, site.type);
  if (site.mask) add({site.b, 1, site.columns ? 1 : site.s, site.t}, DType::f32);
  for (int64_t t = 0; site.columns && t < site.t; ++t) tensors.back().set(static_cast<size_t>(t), 0);
  if (!site.filled.empty()) {
    tensors.emplace_back(DType::i64, std::vector<int64_t>{site.b});
    for (int64_t b = 0; b < site.b; ++b) tensors.back().set(static_cast<size_t>(b), static_cast<double>(site.filled[static_cast<size_t>(b)]));
  }
  add({site.b, site.h, site.s, site.e}, site.type);
  Attention a{site.type};
  a.scale = 0.3;
  a.causal = site.causal;
  a.batch_rank = site.shared > 1 ? 3 : 2;
  a.s = site.s, a.t = site.t, a.d = site.d, a.e = site.e;
  FusedBody mask;
  mask.outer = {Dim(site.b), Dim(site.h / site.shared), Dim(site.s)};
  if (site.shared > 1) mask.outer.insert(mask.outer.begin() + 2, Dim(site.shared));
  mask.row = {Dim(site.t)};
  auto instruction = [&](Instruction::Kind kind) {
    Instruction i{};
    i.kind = kind;
    i.dtype = DType::f32;
    return i;
  };
  mask.code = {instruction(Instruction::Kind::accumulator), instruction(Instruction::Kind::load), instruction(Instruction::Kind::map)};
  mask.code[2].in = {0, 1};
  mask.operands = {DType::f32, DType::f32};
  mask.stores = {{1, 2}};
  std::vector<StridedLayout> layouts;
  for (HostTensor& x : tensors) {
    if (site.shared > 1 && x.dims.size() == 4) {
      // [B, H, ..] as [B, H / shared, shared, ..], of keys, values and masks with the first one's of each.
      const bool repeats = &x == &tensors[1] || &x == &tensors[2] || x.dims[1] == 1;
      for (size_t e = 0; repeats && x.dims[1] > 1 && e < x.elements(); ++e) {
        const auto inner = static_cast<size_t>(x.strides[1]), head = e / inner % static_cast<size_t>(site.h);
        x.set(e, x.get(e - head % static_cast<size_t>(site.shared) * inner));
      }
      const int64_t step = x.strides[1], heads = x.dims[1];
      x.dims[1] = heads == 1 ? 1 : heads / site.shared;
      x.strides[1] = step * site.shared;
      x.dims.insert(x.dims.begin() + 2, heads == 1 ? 1 : site.shared);
      x.strides.insert(x.strides.begin() + 2, repeats ? 0 : step);
    }
    layouts.push_back({{x.dims.begin(), x.dims.end()}, {x.strides.begin(), x.strides.end()}, Dim(0)});
  }
  EmittedAttention code = emit_attention(a, site.mask ? &mask : nullptr, layouts, !site.filled.empty(), site.only);

  std::vector<int64_t> sizes = {site.s, site.t, site.d, site.e};
  for (const Dim& d : code.sizes) sizes.push_back(d.value());
  std::vector<HostTensor*> pointers;
  for (HostTensor& x : tensors) pointers.push_back(&x);
  const CodeUnit unit = code.printed.unit(code.name, ParametersOf::step);
  run_printed(
      {{"attention", code.arguments, {}}, code.name, std::string(attention_text()) + unit.text, unit.kernels, kernels::load_attention_cuda, kernels::attention_cuda_launches},
      pointers, sizes, where, site.shifted ? 1 : 0, site.multiprocessors);

  auto at = [&](const HostTensor& x, int64_t b, int64_t h, int64_t row, int64_t column) {
    if (site.shared > 1) {
      return x.get(static_cast<size_t>(b * x.strides[0] + (x.dims[1] > 1 ? h / site.shared * x.strides[1] : 0) + (x.dims[2] > 1 ? h % site.shared * x.strides[2] : 0) +
                                       (x.dims[3] > 1 ? row * x.strides[3] : 0) + column * x.strides[4]));
    }
    return x.get(static_cast<size_t>(b * x.strides[0] + (x.dims[1] > 1 ? h * x.strides[1] : 0) + (x.dims[2] > 1 ? row * x.strides[2] : 0) + column * x.strides[3]));
  };
  const double rounding = site.type == DType::f16 ? 2e-3 : 1.6e-2;  // of probabilities and of the result
  for (int64_t b = 0; b < site.b; ++b) {
    for (int64_t h = 0; h < site.h; ++h) {
      for (int64_t s = 0; s < site.s; ++s) {
        std::vector<double> p(static_cast<size_t>(site.t), 0);
        double total = 0;
        const int64_t keys = site.filled.empty() ? site.t : site.filled[static_cast<size_t>(b)];
        for (int64_t t = 0; t < (site.causal ? std::min(site.t, s + 1) : keys); ++t) {
          double score = 0;
          for (int64_t d = 0; d < site.d; ++d) score += at(tensors[0], b, h, s, d) * at(tensors[1], b, h, t, d);
          total += p[static_cast<size_t>(t)] = std::exp(0.3 * score + (site.mask ? at(tensors[3], b, 0, s, t) : 0));
        }
        if (total == 0) total = 1;  // no keys give zeros
        for (int64_t e = 0; e < site.e; ++e) {
          double wanted = 0, size = 0;
          for (int64_t t = 0; t < site.t; ++t) {
            wanted += p[static_cast<size_t>(t)] / total * at(tensors[2], b, h, t, e);
            size += p[static_cast<size_t>(t)] / total * std::abs(at(tensors[2], b, h, t, e));
          }
          ASSERT_NEAR(at(tensors.back(), b, h, s, e), wanted, rounding * size + (site.type == DType::f16 ? 6e-8 : 0)) << "element " << b << ", " << h << ", " << s << ", " << e;
        }
      }
    }
  }
}

constexpr int in_boxes = 9;  // the variant

std::vector<Site> sites() {
  Site plain{"70 queries, 150 keys of 64", DType::f16, 1, 2, 70, 150, 64, 64}, odd = plain, masked = plain, small_grid = plain, narrow = plain, wide = plain;
  odd.name += ", odd addresses", odd.shifted = true;
  masked.name += ", masked, causal, heads in rows", masked.mask = masked.causal = masked.joined = true, masked.b = 2, masked.t = 70;
  small_grid.name += ", few a block", small_grid.multiprocessors = 100;
  narrow = {"bfloat16 of 32 and 16", DType::bf16, 1, 1, 65, 64, 32, 16};
  wide = {"of 80 and 112", DType::f16, 1, 1, 20, 70, 80, 112};
  Site keys = plain, late_keys = masked;
  keys.name += ", keys masked", keys.mask = keys.columns = true, keys.b = 2;
  late_keys.name += ", keys masked alone", late_keys.columns = true;
  Site fill{"of 40", DType::f16, 1, 2, 70, 150, 40, 40}, odd_fill = fill, small_fill = fill, wider{"of 160", DType::f16, 1, 1, 70, 150, 160, 160}, small_wider = wider,
                                                         odd_wider = wider;
  odd_fill.name += ", odd addresses", odd_fill.shifted = true;
  small_fill.name += ", few a block, heads in rows", small_fill.multiprocessors = 100, small_fill.joined = true;
  small_wider.name += ", few a block", small_wider.multiprocessors = 100;
  odd_wider.name += ", odd addresses", odd_wider.shifted = true;
  // Copied as boxes: blocks take queries of both heads, and the last ones do not fill a block.
  Site boxes{"512 queries and 300 keys in boxes", DType::f16, 2, 1, 512, 300, 24, 64}, wide_boxes{"of 80, heads in rows, in boxes", DType::bf16, 1, 2, 512, 260, 80, 72};
  boxes.multiprocessors = 2, boxes.only = in_boxes;
  wide_boxes.multiprocessors = 3, wide_boxes.joined = true;
  // Groups divide the keys of all tiles of 64 queries, of which a block takes several; and of the last tiles of heads.
  Site shared_keys{"tiles that groups share", DType::f16, 1, 2, 200, 550, 64, 40}, wide_shared{"of 128, tiles that groups share", DType::f16, 1, 1, 140, 1000, 128, 128},
      last_tiles{"last tiles that groups share", DType::f16, 2, 2, 256, 300, 16, 24};
  for (Site* s : {&shared_keys, &wide_shared, &last_tiles}) s->only = in_boxes;
  shared_keys.multiprocessors = 5, wide_shared.multiprocessors = 3, last_tiles.multiprocessors = 2;
  const Site widest{"bfloat16 of 256 and 8", DType::bf16, 1, 1, 65, 70, 256, 8}, narrowest{"of 8 and 192", DType::f16, 1, 1, 65, 70, 8, 192};
  return {plain, odd,         masked,    small_grid, narrow,    wide,  keys,       late_keys,   fill,        odd_fill,  small_fill,
          wider, small_wider, odd_wider, widest,     narrowest, boxes, wide_boxes, shared_keys, wide_shared, last_tiles};
}

// Blocks that have parts of the keys, of few queries.
std::vector<Site> parts() {
  Site one{"1 query, 700 keys in parts", DType::bf16, 2, 3, 1, 700, 64, 64}, causal{"16 queries of 300 keys, causal, masked", DType::f16, 1, 2, 16, 300, 80, 48},
      wide{"3 queries of 192 and 8", DType::f16, 1, 1, 3, 260, 192, 8};
  causal.causal = causal.mask = causal.joined = true;
  Site odd = one;
  odd.name += ", odd addresses", odd.shifted = true;
  // Blocks have the heads that share keys as rows.
  Site heads{"1 query, 12 heads of 3 keys", DType::bf16, 2, 12, 1, 700, 64, 64}, masked{"1 query, 6 heads of 2 keys, masked, heads in rows", DType::f16, 2, 6, 1, 300, 80, 48};
  heads.shared = 4, heads.filled = {130, 700};
  masked.shared = 3, masked.mask = masked.joined = true;
  Site odd_heads = heads, queries = heads;
  odd_heads.name += ", odd addresses", odd_heads.shifted = true;
  queries.name = "5 queries, 12 heads of 3 keys", queries.s = 5;
  return {one, odd, wide, causal, heads, odd_heads, masked, queries};
}

// Every shape of kernel: more iterations than are in flight at once, and rows and keys that do not fill their tiles.
std::vector<Site> variants() {
  std::vector<Site> out;
  for (int v = 0; v < kernels::AttentionCudaArgs::measured; ++v) {
    for (bool causal : {false, true}) {
      Site s{fmt::format("variant {}, {}", v, causal ? "causal, wide" : "narrow"), DType::f16, 1, 1, 200, 200, 16, causal ? 80 : 16};
      s.causal = causal;
      s.only = v;
      // In boxes a block takes queries of several heads.
      if (!causal) s.h = 3;
      out.push_back(s);
    }
  }
  return out;
}

TEST(cuda_attention_emulated, equals_softmax) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : some(sites(), 20)) {
    for (Where where : emulations) {
      check(s, where);
      if (HasFatalFailure()) return;
    }
  }
}

// Keys after the last one of a sequence are not read, and a sequence may have none.
TEST(cuda_attention_emulated, filled_keys) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  Site one{"1 query, 300 keys", DType::bf16, 3, 2, 1, 300, 64, 64}, many{"70 queries, 200 keys, masked, heads in rows", DType::f16, 2, 2, 70, 200, 64, 64},
      wide{"of 160", DType::f16, 1, 1, 20, 150, 160, 160};
  one.filled = {129, 0, 300}, one.multiprocessors = 100;
  many.filled = {131, 7}, many.mask = many.joined = true;
  wide.filled = {64};
  Site columns = many, odd = many;
  columns.name += ", the mask is one row", columns.columns = true;
  odd.name += ", odd addresses", odd.shifted = true;
  bool groups = false;
  for (const Site& s : {one, many, wide, columns, odd}) {
    groups = !groups;  // a plain run takes either kind of matrix instructions in turn
    for (Where where : std::getenv("INGOT_TEST_ALL") != nullptr ? std::span(emulations) : std::span(emulations).subspan(groups ? 2 : 0, 2)) {
      check(s, where);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(cuda_attention_emulated, parts_of_keys) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : some(parts(), 2)) {
    for (Where where : emulations) {
      check(s, where);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(cuda_attention_emulated, every_variant) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : some(variants(), 10)) {
    // Without groups of warps, these variants run with single warps.
    check(s, Where::early_groups);
    check(s, Where::late_groups);
    if (HasFatalFailure()) return;
  }
}

// Scores, probabilities and sums of Hopper's groups are in registers. Needs NVRTC, and no GPU.
TEST(cuda_attention, boxes_spill_no_registers) {
  if (std::getenv("INGOT_TEST_ALL") == nullptr) GTEST_SKIP() << "INGOT_TEST_ALL=1 compiles all shapes";
  if (std::string why = nvrtc_missing(); !why.empty()) GTEST_SKIP() << why;
  std::vector<CompileJob> jobs;
  for (auto [head, keys] : {std::pair<int64_t, int64_t>{40, 2048}, {64, 2048}, {64, 1178}, {80, 1104}, {128, 2048}}) {
    Attention a{DType::f16};
    a.scale = 0.1;
    a.batch_rank = 1;
    a.s = 2048, a.t = keys, a.d = a.e = head;
    const StridedLayout rows{{Dim(8), Dim(2048), Dim(head)}, {Dim(2048 * head), Dim(head), Dim(1)}, Dim(0)};
    const EmittedAttention code = emit_attention(a, nullptr, {rows, rows, rows, rows});
    jobs.push_back(
        {std::string(prelude()) + matrix_texts() + std::string(attention_text()) + code.printed.unit(code.name, ParametersOf::step).text, 90, CompileJob::Form::cubin, true});
  }
  for (const std::vector<std::byte>& code : compile(jobs).code) {
    size_t kernels = 0;
    for (const auto& [kernel, bytes] : local_bytes(code)) {
      if (!kernel.ends_with("_1")) continue;
      ++kernels;
      EXPECT_EQ(bytes, 0u) << kernel;
    }
    EXPECT_EQ(kernels, 1u);
  }
}

TEST(cuda_attention, equals_softmax) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const Site& s : sites()) check(s, Where::gpu);
  for (const Site& s : parts()) check(s, Where::gpu);
  // Enough for blocks of many queries.
  for (int64_t depth : {40, 64, 128, 160, 256}) {
    Site many{fmt::format("many of {}", depth), DType::f16, 8, 16, 200, 230, depth, depth};
    check(many, Where::gpu);
    many.mask = many.columns = true;
    check(many, Where::gpu);
    many.causal = many.joined = true;
    many.columns = false;
    check(many, Where::gpu);
  }
  // In boxes, which rows and keys do not fill.
  for (int64_t depth : {40, 64, 80, 128}) {
    // Enough for several work tiles for each block.
    Site boxes{fmt::format("long of {}", depth), DType::f16, 2, 24, 520, 260, depth, depth};
    boxes.joined = depth == 64;
    if (depth == 64) boxes.only = in_boxes;  // by sizes only from 1088 queries on
    check(boxes, Where::gpu);
  }
}

}  // namespace
}  // namespace ingot::backend::cuda
