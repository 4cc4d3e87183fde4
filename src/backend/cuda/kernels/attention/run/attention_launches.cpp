#include "backend/cuda/kernels/attention/run/attention_launches.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cuda/kernels/attention/run/attention_args.h"
#include "backend/cuda/kernels/attention/run/tuning.h"
#include "backend/cuda/kernels/run/numbers.h"
#include "backend/cuda/run/hardware.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using Args = AttentionCudaArgs;

void check(const Args& args, const Call& call) {
  auto require = [](bool good, const char* what) {
    if (!good) fail(Code::format, "the operands of an attention step do not fit: {}", what);
  };
  int batch = args.batch_rank;
  int64_t s = call.sizes[0], t = call.sizes[1], d = call.sizes[2], e = call.sizes[3];
  require(d == args.depth && e == args.width, "heads");
  const TensorRef& out = call.operands.back();
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const TensorRef& x = call.operands[k];
    if (args.filled && k == args.filled_operand()) {
      require(x.dtype == ir::DType::i64 && x.rank == 1 && x.dims[0] == out.dims[0], "numbers of keys");
      continue;
    }
    require(x.dtype == args.operands[k].dtype && x.rank == batch + 2 + args.operands[k].gathered, "types and ranks");
    bool load = k >= 3 && k + 1 < call.operands.size();
    int64_t rows = k == 0 || load || k + 1 == call.operands.size() ? s : t, columns = k < 2 ? d : load ? t : e;
    for (int axis = 0; axis < batch + 2; ++axis) {
      int64_t wanted = axis < batch ? out.dims[axis] : axis == batch ? rows : columns;
      require(x.dims[axis] == wanted || (load && x.dims[axis] == 1), "sizes");
    }
    require(load || x.strides[x.rank - 1] == 1, "strides");
  }
}

// The tensor map of Q, K or V (operand k) in boxes of `rows`. Nothing if the copying unit cannot describe it.
std::optional<CudaTiles> boxes_of(const Call& call, size_t k, uint32_t rows) {
  const TensorRef& x = call.operands[k];
  const int64_t element = static_cast<int64_t>(ir::size_of(x.dtype)), min_stride = 16, max_stride = int64_t{1} << 40;
  CudaTiles t;
  t.at = k * backend::cuda::hardware::tensor_map_bytes;
  t.index = k;
  t.dtype = x.dtype;
  t.rank = 4;
  t.box = {64, rows, 1, 1};
  t.dims = {static_cast<uint64_t>(x.dims[x.rank - 1]), 1, 1, 1};
  t.strides = {min_stride, min_stride, min_stride};
  for (int axis = x.rank - 2, at = 1; axis >= 0; --axis, ++at) {
    const int64_t stride = x.strides[axis] * element;
    // An axis of heads with stride 0 has one coordinate.
    if (x.dims[axis] == 1 || (at > 1 && stride == 0)) continue;
    if (stride < min_stride || stride >= max_stride || x.dims[axis] > INT32_MAX) return std::nullopt;
    t.dims[static_cast<size_t>(at)] = static_cast<uint64_t>(x.dims[axis]);
    t.strides[static_cast<size_t>(at) - 1] = static_cast<uint64_t>(stride);
  }
  return t;
}

// Of how many parts of the keys blocks of few queries take one each; 1: of none. The same on every GPU, so that a plan for known sizes has code for either.
int64_t parts_of_keys(const Args& args, int64_t blocks, int64_t queries, int64_t keys) {
  using namespace attention_cuda_tuning;
  if (!args.parts || queries > few_queries) return 1;
  return std::clamp<int64_t>(std::min(keys / min_keys_of_part, blocks_of_multiprocessor * backend::cuda::hardware::h200_multiprocessors / blocks), 1, max_parts);
}

// `rows_of_block`: queries, or heads of one query. `parameters`: of the attention's other kernels.
void add_parts(CudaLaunches& out, const Args& args, std::string_view prefix, int64_t blocks, int64_t rows_of_block, int64_t parts, std::vector<std::byte> parameters,
               std::vector<CudaLaunch::Pointer> pointers) {
  const Args::Shape shape = args.shape_of_parts();
  const int64_t rows = blocks * shape.queries(), row = args.width + 4;
  parameters.resize(8 * (1 + args.operands.size() + std::max<size_t>(1, args.numbers.size())));
  pointers.push_back({CudaLaunch::Pointer::scratch, parameters.size(), 0, out.reserve(4 * parts * rows * row)});
  for (const int64_t number : {int64_t{0}, parts, rows}) {
    parameters.resize(parameters.size() + 8);
    std::memcpy(parameters.data() + parameters.size() - 8, &number, 8);
  }
  const std::string name = fmt::format("{}_{}", args.name, prefix);
  out.add_bytes(name + "parts", blocks * parts, shape.threads(), parameters, pointers);
  out.list.back().shared = shape.shared(args.depth, args.width);
  out.add_bytes(name + "join", divided_up(32 * blocks * rows_of_block, attention_cuda_tuning::join_threads), attention_cuda_tuning::join_threads, parameters, pointers);
  out.overlap();
}

}  // namespace

std::shared_ptr<const void> load_attention_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<Args>(parse_attention_cuda(constants));
  if (args->operands.size() != operands || args->sizes != sizes) {
    fail(Code::format, "an attention step has {} operands and {} sizes, its arguments {} and {}", operands, sizes, args->operands.size(), args->sizes);
  }
  return args;
}

CudaLaunches attention_cuda_launches(const Call& call, const CudaMachine& machine) {
  const auto& args = *static_cast<const Args*>(call.constants);
  check(args, call);
  const CudaNumbers numbers{call.operands, call.sizes};
  numbers.check(args.known, "an attention");
  const TensorRef& result = call.operands.back();
  int64_t batches = 1, queries = call.sizes[0];
  for (int axis = 0; axis < args.batch_rank; ++axis) batches *= result.dims[axis];
  CudaLaunches out;
  if (batches * queries == 0) return out;
  bool together = true;
  for (size_t k : {size_t{0}, size_t{1}, size_t{2}, call.operands.size() - 1}) {
    const TensorRef& x = call.operands[k];
    for (int axis = 0; axis + 1 < x.rank; ++axis) together = together && (x.dims[axis] == 1 || x.strides[axis] % 8 == 0);
  }
  std::vector<CudaLaunch::Pointer> pointers;
  std::vector<std::byte> parameters(args.boxes() ? 3 * backend::cuda::hardware::tensor_map_bytes : 0);
  numbers.append(parameters, pointers, args.numbers, 0);
  auto shared = [&](int variant) {
    const Args::Shape shape = args.shape(variant);
    return shape.shared(args.depth, args.width) + (args.columns && shape.groups > 0 && machine.tiles ? 4 * divided_up(call.sizes[1], shape.keys) * shape.keys : 0);
  };
  auto launch = [&](int variant) {
    const Args::Shape shape = machine.tiles ? args.shape(variant) : args.shape(variant).alone();
    const int64_t blocks = batches * divided_up(queries, shape.queries());
    // In boxes, work of few blocks is cut into tiles of 64 queries.
    const int64_t grid = shape.boxes ? std::min<int64_t>(batches * divided_up(queries, 64), machine.multiprocessors) : blocks;
    CudaLaunches one;
    one.add_bytes(fmt::format("{}_{}", args.name, variant), grid, shape.threads(), parameters, pointers);
    one.list[0].overlaps = true;
    if (shape.boxes) {
      one.list[0].work_tiles = static_cast<uint32_t>(blocks);
      for (size_t k = 0; k < 3; ++k) one.list[0].tiles.push_back(boxes_of(call, k, k == 0 ? 64 : shape.keys).value());
    }
    one.list[0].shared = static_cast<uint32_t>(shared(variant));
    return std::move(one.list);
  };
  out.any = launch(Args::any_address);
  // Use blocks of few queries if blocks of many would give a multiprocessor fewer than two. For wide heads, where single warps multiply:
  // if half of the multiprocessors would have none.
  const int64_t many = batches * divided_up(queries, 64), enough = std::max(args.depth, args.width) > 64 ? machine.multiprocessors / 2 : 2 * machine.multiprocessors;
  const bool heads = args.heads > 0 && queries == 1;
  if (heads && result.dims[args.batch_rank - 1] != args.heads) fail(Code::format, "an attention step has other heads than its arguments say");
  const int64_t blocks_of_few = heads ? batches / args.heads : batches * divided_up(queries, args.shape_of_parts().queries());
  const int64_t parts = parts_of_keys(args, blocks_of_few, queries, call.sizes[1]);
  if (together && (parts > 1 || heads)) {
    out.aligned = {0, 1, 2, call.operands.size() - 1};
    add_parts(out, args, heads ? "heads_" : "", blocks_of_few, heads ? args.heads : queries, parts, parameters, pointers);
  } else if (together) {
    out.aligned = {0, 1, 2, call.operands.size() - 1};
    const int wanted = many < enough ? 0 : 1, variant = args.only != Args::by_sizes ? args.only : (args.printed >> wanted & 1) != 0 ? wanted : 1 - wanted;
    const bool boxes = machine.tiles && args.shape(variant).boxes;
    auto can_be_boxes = [&] {
      bool can = call.sizes[1] > 0 && batches * queries <= INT32_MAX;
      for (size_t k = 0; k < 3; ++k) can = can && boxes_of(call, k, 64);
      return can;
    };
    out.list = launch((boxes ? can_be_boxes() : shared(variant) <= attention_cuda_tuning::max_shared) ? variant : Args::any_address);
  } else {
    out.list = std::move(out.any);
  }
  return out;
}

std::span<const RunKernel> attention_cuda_kernels() {
  static constexpr RunKernel list[] = {{"attention", load_attention_cuda, resolved<attention_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
