#include "backend/cuda/compile/steps.h"

#include <algorithm>
#include <map>

#include "backend/cuda/compile/emitter.h"
#include "backend/cuda/compile/matrix_text.h"
#include "backend/cuda/compile/nvrtc.h"
#include "backend/cuda/compile/prelude.h"
#include "backend/cuda/kernels/attention/attention_text.h"
#include "backend/cuda/kernels/attention/run/attention_args.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "backend/cuda/kernels/implicit_gemm/implicit_gemm.h"
#include "backend/cuda/kernels/implicit_gemm/product.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_args.h"
#include "backend/cuda/kernels/scan/scan.h"
#include "backend/cuda/kernels/scatter/scatter.h"
#include "backend/cuda/kernels/sort/sort.h"
#include "base/error.h"
#include "base/own_file.h"

namespace ingot::backend::cuda {

namespace {

class Steps final : public backend::Emitter {
 public:
  Steps(int architecture, bool tf32) : architecture_(architecture), tf32_(tf32) {}

  EmittedStep fused(const FusedBody& body, const std::vector<StridedLayout>& layouts) override {
    Emitted code = emit(body, layouts);
    EmittedStep step{"fused", std::move(code.arguments), std::move(code.sizes)};
    step.sizes.insert(step.sizes.end(), body.outer.begin(), body.outer.end());
    step.sizes.insert(step.sizes.end(), body.row.begin(), body.row.end());
    bodies_.try_emplace(code.name, Body{std::move(code.text), numbered(code.name, kernels::parse_fused_cuda(step.constants).variants.size())});
    return step;
  }

  // The library multiplies; what it cannot follow (maps), and what would cost a pass of its own behind it, ingot's kernel does.
  ProductAnswer product(const Product& p, const FusedBody& body, const std::vector<StridedLayout>& layouts) override {
    ProductAnswer library = emit_product(p, body, layouts, tf32_);
    const bool must = p.map || p.made != nullptr || p.halves;
    bool own = must || streams(p) || (library.kind == ProductAnswer::body_apart && worth_it(p));
    if (!own || architecture_ < 80) return library;
    OwnProduct mine = emit_own_product(p, body, layouts, architecture_ == 90);
    if (mine.answer.kind != ProductAnswer::taken) return must ? mine.answer : library;
    bodies_.try_emplace(mine.code.name, Body{std::move(mine.code.text), std::move(mine.code.kernels), {matrix_instructions, matrix_text, kernels::implicit_gemm_cuda_text}});
    return mine.answer;
  }

  bool makes_rows(ir::DType type, const ir::Dim& k) const override { return architecture_ >= 80 && cuda::makes_rows(type, k); }
  bool takes_columns_apart(ir::DType type, bool one_row, const ir::Dim& k, const ir::Dims& columns) const override {
    return (architecture_ >= 80 || !one_row) && cuda::takes_columns_apart(type, one_row, k, columns);
  }
  bool takes_halves(ir::DType type, const ir::Dim& columns) const override { return architecture_ >= 80 && cuda::takes_halves(type, columns); }

  // Matrix instructions of this kind came with sm_80.
  bool attends(ir::DType type, const ir::Dim& depth, const ir::Dim& width) const override { return architecture_ >= 80 && cuda::attends(type, depth, width); }
  EmittedStep attention(const Attention& a, ir::DType type, const FusedBody* mask, const std::vector<StridedLayout>& layouts) override {
    EmittedAttention code = emit_attention(a, type, mask, layouts);
    EmittedStep step{"attention", std::move(code.arguments), {a.s, a.t, a.d, a.e}};
    step.sizes.insert(step.sizes.end(), code.sizes.begin(), code.sizes.end());
    bodies_.try_emplace(code.name, Body{std::move(code.text), numbered(code.name, kernels::AttentionCudaArgs::variants), {matrix_instructions, matrix_text, attention_text}});
    return step;
  }
  bool packs() const override { return false; }
  void keep(std::string_view kernel, std::span<const std::byte> constants, std::span<const ir::DType> operands) override {
    using namespace kernels;
    if (kernel == "fused") bodies_.at(parse_fused_cuda(constants).name).kept = true;
    if (kernel == "attention") bodies_.at(parse_attention_cuda(constants).name).kept = true;
    if (kernel == "implicit_gemm") bodies_.at(parse_implicit_gemm_cuda(constants).name).kept = true;
    if (kernel == "scan") keep_parts({scan_cuda_part(parse_scan(constants), operands[0])}, {elements_cuda_text, scan_cuda_text});
    if (kernel == "sort") keep_parts(sort_cuda_parts(operands[0]), {elements_cuda_text, sort_cuda_text});
    if (kernel == "scatter" || kernel == "scatter_along") {
      keep_parts(scatter_cuda_parts(parse_scatter(constants), operands.back()), {elements_cuda_text, scatter_cuda_text});
      keep_parts(sort_keys_cuda_parts(), {elements_cuda_text, sort_cuda_text});
    }
  }

  // A few bodies a call: each call reads the prelude anew, and calls run side by side.
  std::vector<DeviceCode> finish() override {
    constexpr size_t together = 4;
    std::vector<CompileJob> jobs;
    std::vector<DeviceCode> out;
    std::string text;
    std::vector<std::string> kernels;
    size_t count = 0;
    bool special = false;
    Libraries libraries;
    auto flush = [&] {
      if (count == 0) return;
      std::string head(prelude());
      for (const auto& library : libraries) head += library();
      for (bool ptx : {false, true}) {
        jobs.push_back({head + text, architecture_, ptx ? CompileJob::Form::ptx : CompileJob::Form::cubin, special});
        out.push_back({ptx, architecture_, kernels, {}});
      }
      text.clear();
      kernels.clear();
      count = 0;
      special = false;
      libraries.clear();
    };
    for (const auto& [name, body] : bodies_) {
      if (!body.kept) continue;
      // Texts with matrix instructions are long, and use what only this architecture has.
      bool matrices = std::find(body.libraries.begin(), body.libraries.end(), &matrix_instructions) != body.libraries.end();
      if (matrices) flush();
      special = matrices;
      text += body.text;
      for (const auto& library : body.libraries) {
        if (std::find(libraries.begin(), libraries.end(), library) == libraries.end()) libraries.push_back(library);
      }
      kernels.insert(kernels.end(), body.kernels.begin(), body.kernels.end());
      if (++count == together || special) flush();
    }
    flush();
    if (jobs.empty()) return out;
    Compiled compiled = compile(jobs, {0, cache_folder("code")});
    if (!compiled.cache_problem.empty()) say_once(compiled.cache_problem);
    for (size_t k = 0; k < out.size(); ++k) out[k].image = std::move(compiled.code[k]);
    return out;
  }

 private:
  // Texts between the prelude and a body, in order.
  using Libraries = std::vector<std::string_view (*)()>;
  struct Body {
    std::string text;
    std::vector<std::string> kernels;
    Libraries libraries = {};
    bool kept = false;
  };
  // One row by a matrix that lies along K: only reading it counts, which ingot's kernel does as fast as memory gives.
  static bool streams(const Product& p) {
    size_t rank = p.a.dims.size();
    auto is = [](const ir::Dim& d, int64_t n) { return d.is_constant() && d.value() == n; };
    return rank == 2 && is(p.a.dims[0], 1) && is(p.b.strides[0], 1);
  }
  // A pass over the result costs as much as this many steps of K at the rate by which the library is ahead, where there are no large tiles.
  bool worth_it(const Product& p) const {
    constexpr int64_t most = 2048;
    if (architecture_ == 90) return true;
    const ir::Dim& k = p.a.dims.back();
    return k.is_constant() && k.value() <= most;
  }
  static std::vector<std::string> numbered(const std::string& name, size_t count) {
    std::vector<std::string> out;
    for (size_t k = 0; k < count; ++k) out.push_back(fmt::format("{}_{}", name, k));
    return out;
  }
  void keep_parts(const std::vector<kernels::CudaPart>& parts, const Libraries& libraries) {
    for (const kernels::CudaPart& p : parts) bodies_.try_emplace(p.name, Body{p.text, p.kernels, libraries, true});
  }
  int architecture_;
  bool tf32_;
  std::map<std::string, Body> bodies_;  // by kernel name: equal bodies are compiled once
};

}  // namespace

std::unique_ptr<backend::Emitter> make_emitter(int architecture, bool tf32) { return std::make_unique<Steps>(architecture, tf32); }

}  // namespace ingot::backend::cuda
