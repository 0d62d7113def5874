// Types of the requests and replies of POST /attention and POST /mha. docs/api.md says what each field means.

export type DType = "F64" | "F32" | "F16" | "BF16";

export interface FlatTensor<T = number> {
  shape: number[];
  data: T[];
  dtype?: DType | "BOOL" | "I64" | "I32";
}

export interface Base64Tensor {
  shape: number[];
  dtype: DType | "BOOL" | "I64" | "I32";
  base64: string;
}

/** Arrays of up to four axes. */
export type Nested<T> = T[] | T[][] | T[][][] | T[][][][];
export type Tensor<T = number> = Nested<T> | FlatTensor<T> | Base64Tensor;

/** In a reply -Infinity, which only `masked` and `lse` contain, is null, except in base64. */
export type ReplyTensor = Nested<number | null> | FlatTensor<number | null> | Base64Tensor;

export type Stage =
  | "output" | "scores" | "scaled" | "capped" | "masked" | "weights" | "lse" | "present_k" | "present_v";

/** The options that both requests have. `R` are the names that `return` accepts. */
export interface Options<R extends string> {
  /** true or 1: the query may attend to the key. */
  mask?: Tensor<boolean> | Tensor<0 | 1>;
  /** Added to the score. JSON.stringify turns -Infinity into null: block with `mask`, or use base64. */
  bias?: Tensor;
  kv_lengths?: Tensor;
  causal?: boolean;
  query_offset?: number | Tensor | "end";
  /** [left, right], without the query's own position; -1 leaves a side open. */
  window?: [left: number, right: number];
  scale?: number | "1/sqrt(d_k)" | "1/d_k" | "1";
  softcap?: number;
  num_kv_heads?: number;
  past_k?: Tensor;
  past_v?: Tensor;
  return?: R[];
  trace?: boolean;
  tokens?: string[];
  key_tokens?: string[];
  dtype?: "float32" | "float64";
  reply_dtype?: DType;
  format?: "nested" | "flat" | "base64";
}

export interface AttentionRequest extends Options<Stage> {
  q: Tensor;
  k: Tensor;
  v: Tensor;
  layout?: "bhnd" | "bnhd";
  num_heads?: number;
  return_weights?: boolean;
}

export interface MhaWeights {
  w_o?: Tensor;
  b_o?: Tensor;
}

export interface SeparateWeights extends MhaWeights {
  w_q: Tensor;
  w_k: Tensor;
  w_v: Tensor;
  b_q?: Tensor;
  b_k?: Tensor;
  b_v?: Tensor;
}

export interface PackedWeights extends MhaWeights {
  w_qkv: Tensor;
  b_qkv?: Tensor;
}

export type MhaStage = Stage | "q" | "k" | "v" | "heads";

export type MhaRequest = Options<MhaStage> & (SeparateWeights | PackedWeights) & {
  x: Tensor;
  context?: Tensor;
  num_heads: number;
  weight_layout?: "in_out" | "out_in";
  head_mask?: Tensor;
  return_weights?: boolean | "per_head" | "average";
};

/** Exactly the names asked for; `output` if none was. */
export type AttentionReply = { [name in Stage]?: ReplyTensor };
export type MhaReply = { [name in MhaStage]?: ReplyTensor };

export type Code =
  | "invalid_json" | "bad_request" | "unauthorized" | "not_found" | "method_not_allowed" | "not_acceptable"
  | "timeout" | "body_too_large" | "uri_too_long" | "unsupported_media_type" | "missing_field" | "unknown_field"
  | "wrong_type" | "ragged" | "shape_mismatch" | "too_deep" | "out_of_range" | "not_finite" | "overflow"
  | "overloaded" | "headers_too_large" | "internal" | "not_implemented" | "not_ready" | "shutting_down"
  | "out_of_memory" | "compute_timeout";

/** The body of every error, RFC 9457. */
export interface Problem {
  title: string;
  status: number;
  code: Code;
  detail: string;
  /** RFC 6901, if a place in the body is at fault. */
  pointer?: string;
}
