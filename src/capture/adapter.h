// LoRA adapters: which tensors of one change which weights of a model, by their names.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::capture {

// A weight and the two matrices that are added to it: W + alpha / rank * up @ down, where down has `rank` rows.
struct AdapterPart {
  std::string weight;
  size_t down = 0, up = 0;              // numbers of the adapter's tensors
  std::optional<size_t> alpha_tensor;   // number of the tensor of one element that is alpha
  std::optional<double> alpha;          // by the configuration; with neither, alpha is the rank
  bool by_root = false;                 // divide by the root of the rank instead
  bool transposed = false;              // the weight gets (up @ down)^T
};

// The parts of an adapter that PEFT, diffusers or kohya's scripts wrote, sorted by weight. `config`: the text of its adapter_config.json, or diffusers' metadata; "" for none.
// Tensors of another component of a pipeline (unet, text_encoder) are left out where one component fits the weights. Error (invalid_input, unsupported, format) naming the tensor
// and the nearest weight.
std::vector<AdapterPart> adapter_parts(std::span<const std::string> tensors, std::string_view config, std::span<const std::string> weights);

// What Python says in a plan's signature of other names: of weights (other name to name), and names that the plan has no use for.
struct OtherNames {
  std::map<std::string, std::string, std::less<>> tied;
  std::vector<std::string> unused;
};
OtherNames other_names(std::string_view signature);

}  // namespace ingot::capture
