// SPDX-License-Identifier: Apache-2.0
// Inside of plan_program: regions of a graph become units (program.cpp), and so do steps that no kernel computes, with
// the graphs of branches and loops inside of them (program_steps.cpp).
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/analyses.hpp"
#include "ir/output_rooms.hpp"
#include "plan/read_bytes.hpp"
#include "plan/regions.hpp"
#include "plan/units.hpp"

namespace codetta::plan {

inline constexpr int32_t whole_alignment = 16;  // bytes, the most that a kernel of a GPU relies on

// One graph over buffers of the plan.
struct GraphScope {
  const ir::Graph& graph;
  ir::GraphRef ref;  // of a branch or loop; null: the program
  uint32_t block = 0;
  std::vector<uint32_t> inputs;                                // buffers of the graph's inputs
  std::vector<uint32_t> outputs;                               // and of its outputs
  std::map<ir::NodeId, uint32_t> input_buffer{}, buffer_of{};  // of inputs; of stored values (and copies of inputs)
  // Symbolic sizes of rows of products' factors, and the bytes of their least elements.
  std::vector<std::pair<types::Dim, int64_t>> factor_rows{};
  ReadBytes reads{};  // of a CPU's
  // What is read between two readings of a value of it: by the turn of the program, or loop, that it is a part of. Of a
  // branch it is told from outside.
  std::optional<double> turn_bytes{};
  std::vector<uint32_t> devices{};                              // by node: where it lies; empty: all on device 0
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> brought{};  // by buffer and device: the copy that lies there
};

class ProgramPlanner {
 public:
  using Hints = std::vector<std::pair<std::string, int64_t>>;
  ProgramPlanner(const ir::Graph& graph, const Target& target, const MachineFacts& machine, const Hints& hints,
                 const std::vector<UserSource>& sources, Alignment alignment, const Numerics& numerics,
                 const Choices& choices)
      : graph_(graph), machine_(machine), hints_(hints), sources_(sources), alignment_(alignment), choices_(choices) {
    plan_.target = target;
    plan_.numerics = numerics;
  }
  Result<Plan> run();

 private:
  // ---- program.cpp
  uint32_t add_buffer(package::Buffer buffer, uint32_t home);
  uint32_t add_temporary(std::string name, const ir::TensorType& type, uint32_t home);  // on device_
  Result<void> plan_graph(GraphScope& scope);
  [[nodiscard]] int64_t hint(const types::Dim& dim) const;
  // The same where all sizes in it are fixed or hinted; `otherwise` stands for the others.
  [[nodiscard]] std::optional<int64_t> hinted(const types::Dim& dim, std::optional<int64_t> otherwise = {},
                                              int depth = 0) const;
  [[nodiscard]] bool batch_folds(const package::EpilogueProgram& program, int64_t batch, int64_t rows) const;
  [[nodiscard]] GemmShape gemm_shape(const GraphScope& scope, const KernelRegion& region) const;
  [[nodiscard]] int32_t epilogue_alignment(const GraphScope& scope, const KernelRegion& region) const;
  static void find_factor_rows(GraphScope& scope);
  [[nodiscard]] static double bytes_beside(const GraphScope& scope, const KernelRegion& region);
  [[nodiscard]] int32_t factor_alignment(const ir::Graph& graph, const Factor& factor, bool is_a) const;
  // Of tensors of the caller's, which are row-major on Metal.
  [[nodiscard]] bool anywhere() const { return plan_.target.backend != Backend::metal && alignment_ >= Alignment::Any; }
  [[nodiscard]] bool lies_anywhere(const ir::Graph& graph, ir::NodeId source) const;
  // Whether kernels of the user's on a GPU, which may rely on strides and an address, leave this buffer to others.
  [[nodiscard]] bool writes_beside(uint32_t buffer) const {
    return runs_on_gpu() && alignment_ >= Alignment::Uneven &&
           plan_.buffers[buffer].role == package::Buffer::Role::Output;
  }
  [[nodiscard]] bool runs_on_gpu() const {
    return plan_.target.backend == Backend::cuda || plan_.target.backend == Backend::hip;
  }
  // Whether what the question is about is done apart, and for the plan's list that it was asked.
  bool is_apart(const GraphScope& scope, Question question, ir::NodeId node, double together, double apart,
                bool by_model) const;
  // By product: what computing reductions of its rows for a later product adds to it, in microseconds.
  using StatisticsCosts = std::map<ir::NodeId, double>;
  [[nodiscard]] std::optional<Rejection> better_by_map(const GraphScope& scope, const KernelRegion& region,
                                                       const Candidate& together, StatisticsCosts& statistics_us) const;
  [[nodiscard]] std::optional<Rejection> better_behind(const GraphScope& scope, const KernelRegion& region,
                                                       const Candidate& together) const;
  // What discover() says, once for each program and shape: the rounds of find_regions ask for the same again and again.
  [[nodiscard]] const Discovery& discovered(const package::EpilogueProgram& program, const GemmShape& shape) const;
  // Of the first candidate; nothing where no kernel computes it.
  [[nodiscard]] std::optional<double> map_us(const LoweredMap& map) const;
  [[nodiscard]] std::optional<double> selection_us(const LoweredMap& map) const;
  [[nodiscard]] GpuFacts facts_of_gpu() const;
  std::optional<double> store_factors(KernelRegion& region) const;
  [[nodiscard]] std::optional<Rejection> better_apart(const GraphScope& scope, const KernelRegion& region,
                                                      const Candidate& together) const;
  // Of products that differ in columns, without what follows them: what one kernel takes, and what several do; nothing
  // where no kernel computes them. ----- products_apart.cpp
  [[nodiscard]] std::optional<double> apart_us(const GraphScope& scope, const KernelRegion& region) const;
  [[nodiscard]] std::optional<Rejection> refuses_spaces(const GraphScope& scope, KernelRegion region) const;
  [[nodiscard]] std::optional<Rejection> better_in_front(const GraphScope& scope, const KernelRegion& region,
                                                         const Candidate& inside,
                                                         const StatisticsCosts& statistics_us) const;
  uint32_t stored_buffer(GraphScope& scope, const StoredValue& store);
  // Where the value lies, and where it lies on device_: what lies anywhere may have been stored for another device.
  [[nodiscard]] static uint32_t buffer_at(const GraphScope& scope, ir::NodeId node);
  uint32_t read_buffer(GraphScope& scope, ir::NodeId node);
  [[nodiscard]] static uint32_t device_of(const GraphScope& scope, ir::NodeId node) {
    return scope.devices.empty() ? 0 : scope.devices[node.index()];
  }
  bool add_copies(GraphScope& scope, const KernelRegion& region);
  uint32_t factor_buffer(GraphScope& scope, const Factor& factor, Unit& unit);
  void add_kernel(GraphScope& scope, KernelRegion region, PlannedKernel kernel, std::vector<PlannedKernel> makers = {});
  package::Prologue add_maker(GraphScope& scope, MadeFactor made, PlannedKernel maker);
  // What the steps of a unit read and make, but for what its blocks do.
  void add_unit(uint32_t block, Unit unit);
  void add_all_guards();

  // ---- late_sizes.cpp
  struct LateSize {
    uint32_t token = 0;  // a buffer that its unit makes and all with the symbol read; no step names it
    ir::SizeSource source;
    const ir::Graph* graph = nullptr;     // which computes it: the program's, a branch's, a loop's
    size_t order = 0;                     // in the graph, and behind those of the graphs around it
    std::optional<types::Dim> most = {};  // what is known of it
  };
  // `block`: the graph's. It gets the checks that rest on no size of the graph's own.
  void find_late_sizes(const ir::Graph& graph, uint32_t block);
  // Whether the size has a value in front of the graph that is planned next.
  [[nodiscard]] bool is_known(std::string_view symbol) const;
  // Whether a run computes the size, or a size in it: work is done by then, and no other plan may take over for what it
  // turns out to be. A number of the caller's is known before.
  [[nodiscard]] bool is_late(const types::Dim& dim) const;
  void come_behind_size(const types::Dim& dim, Unit& unit) const;
  // Appends the step that reads the size from buffer or result `place`, and the checks that rest on it.
  void define_late_size(const ir::SizeSource& source, uint32_t place, Unit& unit);
  // All that come from a node, in graph order; what to read to come behind them.
  std::vector<uint32_t> define_late_sizes(const ir::Graph& graph, ir::NodeId node, uint32_t place, Unit& unit);
  void add_size(GraphScope& scope, const KernelRegion& region);
  void come_behind_sizes(Unit& unit);
  // Outputs with dims that a run computes are made in memory of the run's own, and copied to the part of the caller's
  // memory that they fill.
  uint32_t add_output(const ir::GraphOutput& output, const ir::OutputRoom& room);
  void fill_outputs(GraphScope& scope);

  // ---- program_steps.cpp
  [[nodiscard]] Result<void> check_graph(const ir::Graph& graph, int depth) const;
  Result<void> add_step(GraphScope& scope, const KernelRegion& region, KernelAccount account);
  void add_copied_view(GraphScope& scope, const KernelRegion& region);
  void add_transfer(GraphScope& scope, const KernelRegion& region);
  void add_index_put(GraphScope& scope, const KernelRegion& region);
  void add_scatter(GraphScope& scope, const KernelRegion& region);
  void add_call(GraphScope& scope, const KernelRegion& region);
  // By user_kernel of the graph: what its source hands over.
  [[nodiscard]] Result<std::map<ir::NodeId, RegionOptions::Hook>> hooks_of(const ir::Graph& graph) const;
  Result<void> add_user_kernel(GraphScope& scope, const KernelRegion& region, KernelAccount account);
  void add_hook(GraphScope& scope, const KernelRegion& region, PlannedKernel& kernel, package::LaunchKernel& launch);
  void add_unread_hook(GraphScope& scope, const ir::TensorType& type, PlannedKernel& kernel,
                       package::LaunchKernel& launch);
  Result<void> add_gpu_user(PlannedKernel& kernel, const std::vector<uint32_t>& buffers);
  void add_user_check(package::Guard guard);
  void check_written(const PlannedKernel& kernel, const std::vector<uint32_t>& buffers);
  // A name for the stride of a buffer's dim, which no size of the program has.
  [[nodiscard]] std::string stride_symbol(uint32_t buffer, int32_t dim) const;
  // The symbol for it, which is defined behind the guards, and is not negative.
  const std::string& taken_stride(uint32_t buffer, int32_t dim);
  void add_user_strides();
  [[nodiscard]] const UserSource* source_of(const std::string& name) const;
  [[nodiscard]] std::string user_refusal(const std::string& name) const;
  Result<void> add_cond(GraphScope& scope, const KernelRegion& region);
  Result<void> add_while(GraphScope& scope, const KernelRegion& region);
  // Buffers of all results of a step; no_buffer where nobody uses one.
  std::vector<uint32_t> result_buffers(GraphScope& scope, const KernelRegion& region, size_t count);
  std::vector<uint32_t> result_buffers(GraphScope& scope, ir::NodeId step, const std::vector<StoredValue>& stores,
                                       size_t count);
  // Of what has no gaps: in this shape (none: its own), then with its dims in another order.
  uint32_t add_view(uint32_t source, const std::vector<size_t>& order, const std::vector<types::Dim>* shape = nullptr);
  uint32_t add_block();
  Result<uint32_t> plan_child(const ir::GraphRef& graph, std::vector<uint32_t> inputs,
                              const std::vector<uint32_t>& outputs, std::optional<double> turn_bytes = {});
  void add_blocks(uint32_t block, Unit unit);
  void write_back(uint32_t block, const std::vector<uint32_t>& carried, const std::vector<uint32_t>& next);
  // Of a block and those inside of it: what launches kernels of the user's with this buffer.
  void launches_of_users(uint32_t block, uint32_t buffer, std::vector<package::LaunchKernel*>& found);
  // What kernels of the user's on a GPU are told of how `from` lies is that of `to` from here on, which takes its
  // place. False: one does not take it, and nothing has changed.
  bool tell_users(uint32_t block, uint32_t from, uint32_t to);
  // Whether a view of the buffer says in which order its dims lie.
  [[nodiscard]] bool seen_turned(uint32_t block, uint32_t buffer) const;

  const ir::Graph& graph_;
  const MachineFacts& machine_;
  const Hints& hints_;
  const std::vector<UserSource>& sources_;
  const Alignment alignment_;
  const Choices& choices_;
  mutable std::map<std::string, Decision> decisions_;  // by key
  Plan plan_;
  UnitProgram units_;
  uint32_t device_ = 0;                                // of the region that is added
  std::vector<ir::GraphRef> children_;                 // of branches and loops, which late_ points to
  std::map<std::string, LateSize, std::less<>> late_;  // by symbol
  std::vector<package::RangeGuard> late_checks_;
  std::vector<std::pair<uint32_t, uint32_t>> filled_;  // what is made, and the output that it is copied to
  struct Discovered {
    package::EpilogueProgram program;
    GemmShape shape;
    Discovery discovery;
  };
  mutable std::unordered_multimap<size_t, Discovered> discovered_;    // by a digest of program and shape
  std::map<std::pair<uint32_t, int32_t>, std::string> user_strides_;  // by buffer and dim: symbols that kernels take
  std::map<uint32_t, uint32_t> slices_;                               // by view of a factor: what it is a slice of
  package::StepList user_checks_;                                     // of strides that user kernels rely on
};

}  // namespace codetta::plan
