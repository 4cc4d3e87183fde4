// A graph as a picture for people, as text for Graphviz, and as a file that Netron shows.
#pragma once
#include <string>

#include "ir/graph.h"

namespace ingot::ir {

// SVG: a box for each node in layers from inputs to outputs, with its result's type, the weights and numbers that it reads, and the user's line as a tooltip.
std::string draw_svg(const Graph&);
// The same boxes and arrows in Graphviz's language.
std::string draw_dot(const Graph&);
// An ONNX model (protobuf) of the domain "ingot", for viewers: types, sizes and attributes of every node; weights without their values.
std::string draw_onnx(const Graph&);

}  // namespace ingot::ir
