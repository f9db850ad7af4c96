#include "ullage/model/servable.h"

#include <string>

#include "ullage/model/families.h"

namespace ullage::model {

Result<void> check_servable(const ModelShape& shape, std::string_view where) {
  if (shape.unservable) return *shape.unservable;
  const bool is_plain = !shape.norm.is_shared && !shape.norm.has_bias && shape.norm.has_weight &&
                        shape.norm.num_per_block == 1 && shape.max_encoder_len == 0 && !shape.has_output_head_bias &&
                        shape.other_weights.empty();
  if (!is_plain) return unsupported_architecture(shape.architecture, where);
  for (const LayerShape& layer : shape.layers) {
    const auto* attention = std::get_if<Attention>(&layer.mixer);
    const auto* ffn = std::get_if<DenseFfn>(&layer.ffn);
    if (attention == nullptr || ffn == nullptr || !ffn->is_gated || layer.parallel_state_space ||
        layer.cross_attention) {
      return unsupported_architecture(shape.architecture, where);
    }
    if (ffn->has_bias) {
      return Error{ErrorCode::kUnsupported, "the feed-forward layers have biases (mlp_bias), which is not supported",
                   std::string(where)};
    }
    const bool is_known = (attention->value_dim == 0 || attention->value_dim == attention->head_dim) &&
                          !attention->qk_norm_spans_heads && !attention->has_output_gate && attention->gate_dim == 0 &&
                          attention->has_value_projection && attention->has_key_bias && !attention->has_sinks &&
                          attention->chunk == 0 && attention->kv_source_layer < 0 && attention->scale == 0 &&
                          attention->rope.rotary_dim > 0 && attention->rope.scaling != RopeScaling::kOther;
    if (!is_known) return unsupported_architecture(shape.architecture, where);
  }
  return {};
}

}  // namespace ullage::model
