// An implementation of a GEMM as compile sees it: which sites it may compute, and its kernels around the epilogue. Its folder has one, and its offers.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/kernels/gemm/gemm_site.h"
#include "backend/cuda/kernels/gemm/packed/packing.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/tiles/run/tiles_args.h"

namespace ingot::backend::cuda {

// A kernel around a GEMM's epilogue: `call`(parameters of its own type, a function of the row, the first column and the sums of eight adjacent columns).
struct GemmKernel {
  std::string suffix, bounds, parameters, call;
  std::vector<CodeUnit::Library> libraries;
  bool vectors = true;  // the epilogue accesses its operands in vectors of eight
  int cluster = 1;      // blocks in a cluster
};

// What the printed epilogue can do for kernels that copy its operands.
struct EpilogueForm {
  uint8_t column_bytes = 0;  // see kernels::TilesArgs
  uint8_t boxed_in = kernels::TilesArgs::none, boxed_out = kernels::TilesArgs::none;
};

struct PrintedGemm {
  std::vector<std::byte> args = {};  // of the implementation
  std::vector<GemmKernel> kernels = {};
};

struct GemmCompiler {
  const kernels::GemmImplementation& run;
  bool (*takes)(const Gemm&, bool hopper);  // as far as types, the form of the GEMM and known sizes say: also of sketches
  bool (*may)(const GemmSite&);             // it can compute the site at some sizes
  PrintedGemm (*print)(const GemmSite&, const kernels::GemmArgs&, const EpilogueForm&);
  std::string_view tunable = {};
  // As far as what is common to all says: `takes` or `may` says the rest.
  bool suits(const Gemm& g, bool hopper) const { return run.of_experts == (g.row_ends != nullptr) && run.of_packed == (is_placed(g.a) ? g.packed.has_value() : packing_of(g, hopper).has_value()); }
};
// All, in the order of implementations.def.
std::vector<const GemmCompiler*> gemm_compilers();

// What kernels of this type use before `own`: matrix instructions, with those of groups of warps if it multiplies by them, and what all GEMMs use.
std::vector<CodeUnit::Library> gemm_libraries(const kernels::GemmArgs&, bool of_groups, std::vector<CodeUnit::Library> own = {});
// GEMMs whose threads copy tiles themselves: the loop over K, and the epilogue of what a warp has of a tile.
std::string_view copied_tiles_text();
// The kernel that adds partial sums of K.
void add_finish(PrintedGemm&, const kernels::GemmArgs&, bool vectors);
// The kernels for operands at any address, which read A through the map.
void add_for_any_address(PrintedGemm&, const kernels::GemmArgs&, const GemmSite&);

}  // namespace ingot::backend::cuda
