// Loads a plan of float32 inputs and outputs, runs it on ones and prints the first values of each output.
//
//   cmake --install build/release --prefix /opt/ingot
//   export PKG_CONFIG_PATH=/opt/ingot/lib/pkgconfig LD_LIBRARY_PATH=/opt/ingot/lib
//   c++ -std=c++20 run_plan.cpp -o run_plan $(pkg-config --cflags --libs ingot_runtime)
//   ./run_plan model.ingot             # every input at its usual size
//   ./run_plan model.ingot 3,16 3      # sizes of the inputs, in their order
#include <algorithm>
#include <cstdio>
#include <ingot/ingot.hpp>
#include <sstream>

static int run(int argc, char** argv) {
  ingot::Plan plan = ingot::Plan::load(argv[1]);
  ingot::Weights weights(plan);
  ingot::Session session(plan, weights);

  std::vector<ingot::Tensor> inputs;
  for (ingot::Binding& b : plan.inputs()) {
    if (size_t given = inputs.size() + 2; given < static_cast<size_t>(argc)) {
      b.dims.clear();
      std::istringstream text(argv[given]);
      for (std::string size; std::getline(text, size, ',');) b.dims.push_back(std::stoll(size));
    }
    inputs.emplace_back(b.dtype, nullptr, b.dims);
  }
  session.resolve(inputs);  // checks the sizes, so the memory for them comes after it
  for (ingot::Tensor& t : inputs) {
    t = ingot::Tensor::zeros(t.dtype(), t.dims());
    std::ranges::fill(t.values<float>(), 1.0f);
  }

  size_t number = 0;
  for (const ingot::Tensor& t : session.run(inputs)) {
    std::printf("output %zu [", number++);
    for (size_t d = 0; d < t.dims().size(); ++d) std::printf(d ? ", %lld" : "%lld", static_cast<long long>(t.dims()[d]));
    std::printf("]:");
    std::span<const float> values = t.values<const float>();
    for (float v : values.first(std::min<size_t>(values.size(), 8))) std::printf(" %g", v);
    std::printf("\n");
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_plan PLAN [SIZES OF AN INPUT]...\n");
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const ingot::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());  // message, origin and remedy
    return 1;
  }
}
