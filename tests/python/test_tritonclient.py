"""The unmodified HTTP clients of tritonclient, sync and asyncio, against the Open Inference Protocol under /v2."""
import asyncio
import base64
import gzip
import http.client
import json
import socket
import unittest
import warnings
import zlib

import aiohttp
import ml_dtypes
import numpy as np
import tritonclient.http as sync
import tritonclient.http.aio as aio
from tritonclient.utils import InferenceServerException

from daemon import Daemon

daemon = None
random = np.random.default_rng(4)

NAMES = {"F32": np.float32, "F64": np.float64}
DATATYPES = {np.dtype(np.float32): "FP32", np.dtype(np.float64): "FP64", np.dtype(np.float16): "FP16",
             np.dtype(ml_dtypes.bfloat16): "BF16", np.dtype(np.bool_): "BOOL", np.dtype(np.int64): "INT64", np.dtype(np.int32): "INT32"}


def setUpModule():
    global daemon
    daemon = Daemon("--max-body", "8MiB")


def tearDownModule():
    daemon.stop()


def arrays(n_q=5, n_k=7, d=16, dtype=np.float32, heads=()):
    return {"q": random.standard_normal((*heads, n_q, d)).astype(dtype),
            "k": random.standard_normal((*heads, n_k, d)).astype(dtype),
            "v": random.standard_normal((*heads, n_k, d)).astype(dtype)}


def inputs(module, tensors, binary=True):
    result = []
    for name, array in tensors.items():
        tensor = module.InferInput(name, array.shape, DATATYPES[array.dtype])
        tensor.set_data_from_numpy(array, binary_data=binary if isinstance(binary, bool) else name in binary)
        result.append(tensor)
    return result


def outputs(module, **binary):
    return [module.InferRequestedOutput(name, binary_data=wanted) for name, wanted in binary.items()]


def plain(tensors, path="/attention", **options):
    """The same request as JSON to the plain route: arrays by name, of the bits that came."""
    document = {name: {"shape": a.shape, "dtype": {"float32": "F32", "float64": "F64", "float16": "F16", "bool": "BOOL",
                                                   "int64": "I64", "int32": "I32"}[a.dtype.name],
                       "base64": base64.b64encode(np.ascontiguousarray(a).tobytes()).decode()}
                for name, a in tensors.items()}
    reply = daemon.post_json(path, {**document, **options, "format": "base64"})
    return {name: np.frombuffer(base64.b64decode(t["base64"]), NAMES[t["dtype"]]).reshape(t["shape"])
            for name, t in reply.items()}


class Both(unittest.TestCase):
    """A test here runs with either client: ask(name, ...) calls the method of that name."""

    def each(self, test):
        with self.subTest("sync"), sync.InferenceServerClient(daemon.address) as client:
            test(sync, lambda name, *a, **k: getattr(client, name)(*a, **k))
        with self.subTest("aio"):
            loop = asyncio.new_event_loop()
            client = loop.run_until_complete(self.make())
            try:
                test(aio, lambda name, *a, **k: loop.run_until_complete(getattr(client, name)(*a, **k)))
            finally:
                loop.run_until_complete(client.close())
                loop.close()

    @staticmethod
    async def make():
        return aio.InferenceServerClient(daemon.address)

    def same_bits(self, got, wanted):
        self.assertEqual(got.dtype, wanted.dtype)
        self.assertEqual(got.shape, wanted.shape)
        self.assertEqual(got.tobytes(), wanted.tobytes())


class Metadata(Both):
    def test_health(self):
        def test(_, ask):
            self.assertTrue(ask("is_server_live"))
            self.assertTrue(ask("is_server_ready"))
            self.assertTrue(ask("is_model_ready", "attention"))
            self.assertTrue(ask("is_model_ready", "mha", "1"))
            self.assertFalse(ask("is_model_ready", "mha", "2"))
            self.assertFalse(ask("is_model_ready", "other"))
        self.each(test)

    def test_metadata_and_config(self):
        def test(_, ask):
            self.assertEqual(ask("get_server_metadata")["name"], "attentiond")
            for model, required in (("attention", {"q", "k", "v"}), ("mha", {"x"})):
                metadata, config = ask("get_model_metadata", model), ask("get_model_config", model, "1")
                self.assertEqual((metadata["name"], metadata["versions"]), (model, ["1"]))
                self.assertEqual(config["max_batch_size"], 0)
                self.assertEqual([t["name"] for t in metadata["inputs"]], [t["name"] for t in config["input"]])
                self.assertEqual({t["name"] for t in config["input"] if not t["optional"]}, required)
                for tensor, configured in zip(metadata["outputs"], config["output"]):
                    self.assertEqual("TYPE_" + tensor["datatype"], configured["data_type"])
                    self.assertEqual(set(tensor["shape"]), {-1})
        self.each(test)

    def test_repository_and_what_is_not_there(self):
        def test(_, ask):
            self.assertEqual([m["name"] for m in ask("get_model_repository_index")], ["attention", "mha", "scan", "merge"])
            self.assertEqual(ask("get_system_shared_memory_status"), [])
            self.assertEqual(ask("get_cuda_shared_memory_status", "r"), [])
            ask("unregister_system_shared_memory")
            for call in (("load_model", "attention"), ("unload_model", "attention"), ("get_log_settings",),
                         ("update_log_settings", {"log_info": True}), ("get_trace_settings",),
                         ("update_trace_settings", "attention", {"trace_level": ["OFF"]}),
                         ("register_system_shared_memory", "r", "/r", 64),
                         ("register_cuda_shared_memory", "r", b"AAAA", 0, 64)):
                with self.assertRaises(InferenceServerException, msg=call[0]) as caught:
                    ask(*call)
                self.assertEqual(caught.exception.status(), "400", call[0])
                self.assertGreater(len(caught.exception.message()), 20, call[0])
        self.each(test)

    def test_statistics(self):
        def test(module, ask):
            def count():
                stats = ask("get_inference_statistics", "attention")["model_stats"][0]
                return stats["inference_count"], stats["inference_stats"]
            before, _ = count()
            for _ in range(3):
                ask("infer", "attention", inputs(module, arrays()))
            after, tallies = count()
            self.assertEqual(after - before, 3)
            for name in ("success", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"):
                self.assertEqual(set(tallies[name]), {"count", "ns"})
            self.assertEqual(len(ask("get_inference_statistics")["model_stats"]), 4)
        self.each(test)


class Infer(Both):
    def test_the_bits_of_the_plain_route(self):
        def test(module, ask):
            for dtype, options in ((np.float32, {}), (np.float64, {"dtype": "float64"}), (np.float16, {})):
                for binary in (True, False, ("q", "v")):
                    tensors = arrays(dtype=dtype)
                    wanted = plain(tensors, **options)["output"]
                    got = ask("infer", "attention", inputs(module, tensors, binary), parameters=options).as_numpy("output")
                    self.same_bits(got, wanted)
        self.each(test)

    def test_four_axes_and_options(self):
        def test(module, ask):
            tensors = arrays(heads=(2, 3))
            mask = random.random((5, 7)) < 0.7
            tensors["mask"] = mask
            tensors["kv_lengths"] = np.array([6, 7])
            wanted = plain(tensors, window=[3, 1], causal=True, scale=0.3, softcap=2.5,
                           **{"return": ["output", "lse", "weights"]})
            for window in ([3, 1], "[3, 1]"):
                options = {"window": window, "causal": True, "scale": 0.3, "softcap": 2.5}
                got = ask("infer", "attention", inputs(module, tensors), parameters=options, request_id="7",
                          outputs=outputs(module, weights=True, output=True, lse=True))
                self.assertEqual(got.get_response()["id"], "7")
                self.assertEqual([o["name"] for o in got.get_response()["outputs"]], ["weights", "output", "lse"])
                for name in ("output", "lse", "weights"):
                    self.same_bits(got.as_numpy(name), wanted[name])
        self.each(test)

    def test_outputs(self):
        def test(module, ask):
            tensors = arrays()
            got = ask("infer", "attention", inputs(module, tensors), parameters={"return": ["lse"]})
            self.assertEqual([o["name"] for o in got.get_response()["outputs"]], ["output", "lse"])
            got = ask("infer", "attention", inputs(module, tensors), outputs=outputs(module, lse=False, output=True, weights=False))
            wanted = plain(tensors, **{"return": ["output", "lse", "weights"]})
            for name in wanted:
                self.same_bits(got.as_numpy(name), wanted[name])
            self.assertNotIn("parameters", got.get_output("lse"))
            got = ask("infer", "attention", inputs(module, tensors, False), outputs=outputs(module, output=False))
            self.same_bits(got.as_numpy("output"), wanted["output"])
        self.each(test)

    def test_bf16(self):
        def test(module, ask):
            tensors = {n: a.astype(ml_dtypes.bfloat16) for n, a in arrays().items()}
            got = ask("infer", "attention", inputs(module, tensors), parameters={"reply_dtype": "BF16"})
            wanted = plain({n: a.astype(np.float32) for n, a in tensors.items()})["output"].astype(ml_dtypes.bfloat16)
            self.assertEqual(got.get_output("output")["datatype"], "BF16")
            self.same_bits(got.as_numpy("output").astype(np.float32), wanted.astype(np.float32))
        self.each(test)

    def test_fp16_reply(self):
        def test(module, ask):
            tensors = arrays(dtype=np.float16)
            got = ask("infer", "attention", inputs(module, tensors), parameters={"reply_dtype": "F16"}).as_numpy("output")
            self.same_bits(got, plain(tensors)["output"].astype(np.float16))
        self.each(test)

    def test_fp16_as_json(self):
        tensors = arrays(dtype=np.float16)  # which the client itself refuses to send
        request = {"inputs": [{"name": n, "shape": a.shape, "datatype": "FP16", "data": a.ravel().tolist()}
                              for n, a in tensors.items()]}
        reply = daemon.post_json("/v2/models/attention/infer", request)
        self.same_bits(np.array(reply["outputs"][0]["data"], np.float32).reshape(5, 16), plain(tensors)["output"])

    def test_size_0(self):
        def test(module, ask):
            for binary in (True, False):
                tensors = {"q": np.zeros((0, 3), np.float32), "k": np.zeros((4, 3), np.float32),
                           "v": np.zeros((4, 2), np.float32)}
                got = ask("infer", "attention", inputs(module, tensors, binary))
                self.assertEqual(got.get_output("output")["shape"], [0, 2])
                self.assertEqual(got.as_numpy("output").shape, (0, 2))
        self.each(test)

    def test_what_is_blocked_is_minus_infinity_in_binary(self):
        def test(module, ask):
            tensors = {**arrays(), "kv_lengths": np.array([0], np.int32)}
            got = ask("infer", "attention", inputs(module, tensors), outputs=outputs(module, lse=True, masked=False))
            self.assertTrue(np.all(np.isneginf(got.as_numpy("lse"))))
            self.assertTrue(np.all(np.isnan(got.as_numpy("masked"))))  # null: what the client makes of it
        self.each(test)

    def test_mha(self):
        def test(module, ask):
            tensors = {"x": random.standard_normal((2, 5, 8)).astype(np.float32),
                       "w_qkv": random.standard_normal((8, 24)).astype(np.float32),
                       "w_o": random.standard_normal((8, 8)).astype(np.float32)}
            wanted = plain(tensors, "/mha", num_heads=2, causal=True, **{"return": ["output", "heads"]})
            got = ask("infer", "mha", inputs(module, tensors), model_version="1",
                      parameters={"num_heads": 2, "causal": True, "return": ["heads"]})
            for name in wanted:
                self.same_bits(got.as_numpy(name), wanted[name])
        self.each(test)

    def test_large(self):
        def test(module, ask):
            tensors = arrays(256, 512, 64, heads=(4,))
            self.same_bits(ask("infer", "attention", inputs(module, tensors)).as_numpy("output"), plain(tensors)["output"])
        self.each(test)

    def test_deadline_and_priority(self):
        def test(module, ask):
            ask("infer", "attention", inputs(module, arrays()), priority=3, timeout=30_000_000)
            with self.assertRaises(InferenceServerException) as caught:
                ask("infer", "attention", inputs(module, arrays()), timeout=1)
            self.assertEqual(caught.exception.status(), "504")
            with self.assertRaises(InferenceServerException) as caught:
                ask("infer", "attention", inputs(module, arrays()), sequence_id=5, sequence_start=True)
            self.assertEqual(caught.exception.status(), "400")
        self.each(test)

    def test_compression(self):
        def test(module, ask):
            tensors = arrays(40, 40, 32)
            wanted = plain(tensors, **{"return": ["output", "weights"]})
            for coding in ("gzip", "deflate"):
                for request, response in ((coding, None), (None, coding), (coding, coding)):
                    got = ask("infer", "attention", inputs(module, tensors),
                              outputs=outputs(module, output=True, weights=False),
                              request_compression_algorithm=request, response_compression_algorithm=response)
                    for name in wanted:
                        self.same_bits(got.as_numpy(name), wanted[name])
        self.each(test)

    def test_a_replayed_body(self):
        """generate_request_body and parse_response_body, which people use with HTTP libraries of their own."""
        tensors = arrays()
        body, length = sync.InferenceServerClient.generate_request_body(inputs(sync, tensors))
        status, headers, reply = daemon.raw("POST", "/v2/models/attention/infer", body,
                                            {"Inference-Header-Content-Length": str(length)})
        self.assertEqual(status, 200)
        got = sync.InferenceServerClient.parse_response_body(
            reply, header_length=int(headers["inference-header-content-length"]))
        self.same_bits(got.as_numpy("output"), plain(tensors)["output"])


class Concurrency(Both):
    def test_16_async_at_once(self):
        with sync.InferenceServerClient(daemon.address, concurrency=16) as client:
            work = [arrays(64, 128, 32) for _ in range(16)]
            waiting = [client.async_infer("attention", inputs(sync, t)) for t in work]
            for tensors, pending in zip(work, waiting):
                self.same_bits(pending.get_result().as_numpy("output"), plain(tensors)["output"])

    def test_16_coroutines_at_once(self):
        async def run():
            async with aio.InferenceServerClient(daemon.address) as client:
                return await asyncio.gather(*(client.infer("attention", inputs(aio, t)) for t in work))
        work = [arrays(64, 128, 32) for _ in range(16)]
        for tensors, got in zip(work, asyncio.run(run())):
            self.same_bits(got.as_numpy("output"), plain(tensors)["output"])

    def test_one_connection_for_many_calls(self):
        """Errors and unread bodies of health do not cost the connection."""
        async def run():
            async with aio.InferenceServerClient(daemon.address, conn_limit=1) as client:
                for i in range(200):
                    self.assertTrue(await client.is_server_ready())
                    if i % 10 == 0:
                        with self.assertRaises(InferenceServerException):
                            await client.infer("attention", inputs(aio, {"q": np.zeros((1, 1), np.float32)}))
        asyncio.run(run())


def kinds_of_error():
    """Requests that fail, each (status, infer's arguments); 200 of them."""
    f32, good = np.float32, arrays(2, 2, 2)
    one = lambda name, a: {**good, name: a}
    for i in range(20):
        yield "404", f"model{i}", good, {}
        yield "422", "attention", one(f"name{i}", good["q"]), {}
        yield "422", "attention", good, {"parameters": {f"option{i}": 1}}
        yield "422", "attention", one("k", np.zeros((2, 3 + i), f32)), {}
        yield "422", "attention", one("q", np.full((2, 2), np.nan, f32)), {}
        yield "422", "attention", good, {"parameters": {"window": [i]}}
        yield "422", "attention", good, {"parameters": {"scale": f"one/{i}"}}
        yield "400", "attention", good, {"outputs": [sync.InferRequestedOutput(f"no{i}")]}
        yield "400", "attention", good, {"outputs": [sync.InferRequestedOutput("output", class_count=i + 1)]}
        yield "422", "mha", {"x": np.zeros((1 + i, 2), f32)}, {"parameters": {"num_heads": 1}}


class Errors(Both):
    def test_200_errors_are_read(self):
        def test(module, ask):
            count = 0
            for status, model, tensors, more in kinds_of_error():
                with self.assertRaises(InferenceServerException) as caught:
                    ask("infer", model, inputs(module, tensors), **more)
                self.assertEqual(caught.exception.status(), status, caught.exception)
                message = caught.exception.message()
                self.assertNotIn("decode", message)
                self.assertGreater(len(message), 15)
                count += 1
            self.assertEqual(count, 200)
        self.each(test)

    def test_a_body_over_the_limit(self):
        def test(module, ask):
            tensors = {**arrays(), "bias": np.zeros((5, 1 << 20), np.float32)}
            with self.assertRaises(InferenceServerException) as caught:
                ask("infer", "attention", inputs(module, tensors))
            self.assertEqual(caught.exception.status(), "413")
        self.each(test)

    def test_types_that_are_not_read(self):
        def test(module, ask):
            tensor = module.InferInput("q", [1, 1], "BYTES")
            tensor.set_data_from_numpy(np.array([[b"x"]], np.object_))
            with self.assertRaises(InferenceServerException) as caught:
                ask("infer", "attention", [tensor])
            self.assertEqual(caught.exception.status(), "400")
            self.assertIn("FP64, FP32, FP16, BF16, BOOL, INT64, INT32", caught.exception.message())
        self.each(test)

    def test_framing_errors_have_the_member(self):
        host, port = daemon.address.split(":")
        heads = (b"POST /v2/models/attention/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                 b"POST /v2/models/attention/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
                 b"GET /v2 HTTP/1.1\r\n\r\n", b"GET /v2?x=1 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        for head in heads:
            with socket.create_connection((host, int(port)), timeout=30) as s:
                s.sendall(head)
                reply = http.client.HTTPResponse(s)
                reply.begin()
                document = json.loads(reply.read())
                self.assertEqual((reply.status, document["code"]), (400, "bad_request"), head)
                self.assertEqual(document["error"], document["detail"])
                self.assertEqual(reply.getheader("Connection"), "close")

    def test_a_fault_of_the_protocol_keeps_the_connection(self):
        connection = http.client.HTTPConnection(daemon.address, timeout=30)
        body, length = sync.InferenceServerClient.generate_request_body(inputs(sync, arrays()))
        for header in ("0", "-1", "1e3", "9223372036854775808", str(10 * len(body)), "", "x"):
            connection.request("POST", "/v2/models/attention/infer", body, {"Inference-Header-Content-Length": header})
            reply = connection.getresponse()
            document = json.loads(reply.read())
            self.assertEqual((reply.status, document["code"]), (400, "bad_request"), header)
            self.assertIsNone(reply.getheader("Connection"), header)
        sock = connection.sock
        connection.request("GET", "/v2/health/live")
        self.assertEqual(connection.getresponse().read(), b'{"live":true}\n')
        self.assertIs(connection.sock, sock)
        connection.close()


class PerfAnalyzer(unittest.TestCase):
    def test_a_request_as_it_sends_them(self):
        """C++'s client: the length header always, chunked or not, statistics before and after."""
        tensors = arrays(8, 8, 4, heads=(1, 2))
        head = json.dumps({"id": "0", "inputs": [
            {"name": n, "shape": a.shape, "datatype": "FP32", "parameters": {"binary_data_size": a.nbytes}}
            for n, a in tensors.items()], "parameters": {"binary_data_output": True}}).encode()
        body = head + b"".join(a.tobytes() for a in tensors.values())
        wanted = plain(tensors)["output"].tobytes()
        before = json.loads(daemon.raw("GET", "/v2/models/attention/versions/1/stats")[2])["model_stats"][0]
        for make in (lambda: body, lambda: iter([body[:100], body[100:]])):  # an iterator is sent in chunks
            status, headers, reply = daemon.raw("POST", "/v2/models/attention/versions/1/infer", make(),
                                                {"Inference-Header-Content-Length": str(len(head)), "Expect": ""})
            self.assertEqual(status, 200, reply)
            self.assertEqual(reply[int(headers["inference-header-content-length"]):], wanted)
        after = json.loads(daemon.raw("GET", "/v2/models/attention/versions/1/stats")[2])["model_stats"][0]
        for name, tally in after["inference_stats"].items():
            change = tally["count"] - before["inference_stats"][name]["count"]
            self.assertEqual(change, 0 if name in ("fail", "cache_hit", "cache_miss") else 2, name)

    def test_coded_bodies_count_before_the_coding(self):
        tensors = arrays()
        body, length = sync.InferenceServerClient.generate_request_body(inputs(sync, tensors))
        for coding, code in (("gzip", gzip.compress), ("deflate", zlib.compress)):
            status, headers, reply = daemon.raw("POST", "/v2/models/attention/infer", code(body),
                                                {"Inference-Header-Content-Length": str(length), "Content-Encoding": coding,
                                                 "Accept-Encoding": "gzip, deflate"})
            self.assertEqual(status, 200, reply)
            self.assertNotIn("content-encoding", headers)
            self.assertEqual(reply[int(headers["inference-header-content-length"]):], plain(tensors)["output"].tobytes())


class Announcements(unittest.TestCase):
    def test_no_close_without_notice(self):
        """Keep-alive POSTs of aiohttp through errors and refusals: each close is announced before."""
        async def run():
            connector = aiohttp.TCPConnector(limit=1)
            async with aiohttp.ClientSession(connector=connector) as session:
                for i in range(300):
                    body = b"{" if i % 3 else b'{"inputs": []}'
                    async with session.post(f"{daemon.url}/v2/models/attention/infer", data=body) as reply:
                        self.assertIn("error", await reply.json(content_type=None))
        asyncio.run(run())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
