"""A tiny language model with random weights, in the form that llama.cpp reads."""
import random
import struct

WIDTH, HIDDEN, LAYERS, HEADS, CONTEXT, ALIGNMENT = 256, 512, 2, 4, 256, 32
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9  # types of GGUF's values
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # and of tokens
F32 = 0  # and of tensors
TOKENS = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), *((f"<0x{n:02X}>", BYTE) for n in range(256)), *((f"\u2581{c}", NORMAL) for c in "abcdefghijklm")]


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pack(kind, value):
    return text(value) if kind == STRING else struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], value)


def metadata():
    yield "general.architecture", STRING, "llama"
    yield "general.name", STRING, "random"
    for key, value in (("context_length", CONTEXT), ("embedding_length", WIDTH), ("block_count", LAYERS), ("feed_forward_length", HIDDEN), ("vocab_size", len(TOKENS)),
                       ("attention.head_count", HEADS), ("attention.head_count_kv", HEADS), ("rope.dimension_count", WIDTH // HEADS)):
        yield f"llama.{key}", UINT32, value
    yield "llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5
    yield "tokenizer.ggml.model", STRING, "llama"
    yield "tokenizer.ggml.tokens", (ARRAY, STRING), [name for name, _ in TOKENS]
    yield "tokenizer.ggml.scores", (ARRAY, FLOAT32), [0.0] * len(TOKENS)
    yield "tokenizer.ggml.token_type", (ARRAY, INT32), [kind for _, kind in TOKENS]
    yield "tokenizer.ggml.bos_token_id", UINT32, 1
    yield "tokenizer.ggml.eos_token_id", UINT32, 2


def tensors():
    yield "token_embd.weight", (WIDTH, len(TOKENS))
    for n in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{n}.{name}.weight", (WIDTH, WIDTH)
        for name, size in (("attn_norm", (WIDTH,)), ("ffn_norm", (WIDTH,)), ("ffn_gate", (WIDTH, HIDDEN)), ("ffn_up", (WIDTH, HIDDEN)), ("ffn_down", (HIDDEN, WIDTH))):
            yield f"blk.{n}.{name}.weight", size
    yield "output_norm.weight", (WIDTH,)
    yield "output.weight", (WIDTH, len(TOKENS))


def model():
    chance, pairs, shapes = random.Random(1), list(metadata()), list(tensors())
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(pairs))
    for key, kind, value in pairs:
        if isinstance(kind, tuple):
            head += text(key) + struct.pack("<IIQ", ARRAY, kind[1], len(value)) + b"".join(pack(kind[1], v) for v in value)
        else:
            head += text(key) + struct.pack("<I", kind) + pack(kind, value)
    data = b""
    for name, shape in shapes:
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F32, len(data))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data += struct.pack(f"<{count}f", *(chance.uniform(-0.1, 0.1) for _ in range(count)))  # each a multiple of ALIGNMENT long
    return head + bytes(-len(head) % ALIGNMENT) + data

