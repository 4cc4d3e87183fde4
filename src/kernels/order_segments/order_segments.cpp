#include "kernels/definition.h"
#include "kernels/order_segments/run/order_segments_args.h"

namespace ingot::kernels {

namespace {

PlainStep plain(const ir::Graph&, const ir::Node& node) { return {serialise(OrderSegmentsArgs{node.attributes.boolean("wrap")})}; }

}  // namespace

// The random cases of reduce_segments have it too.
extern const Definition order_segments_definition;
const Definition order_segments_definition{"order_segments", {{Role::index}, {Role::output}, {Role::output}}, {ir::Op::order_segments}, plain};

}  // namespace ingot::kernels
