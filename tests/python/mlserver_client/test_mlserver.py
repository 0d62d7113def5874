"""MLServer's own types, codecs and batch client, unmodified, against the Open Inference Protocol under /v2."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse, Parameters, RequestOutput

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from daemon import Daemon

daemon = None
INFER = "/v2/models/attention/infer"
ROWS = {"q": [[2, 0, 1], [0, 2, 1]], "k": [[1, 1, 0], [0, 1, 1]], "v": [[1, 0, 1], [0, 1, 0]]}


def setUpModule():
    global daemon
    daemon = Daemon()


def tearDownModule():
    daemon.stop()


def request(rows=ROWS, **members):
    tensors = [NumpyCodec.encode_input(name, np.array(values, np.float32)) for name, values in rows.items()]
    return InferenceRequest(inputs=tensors, **members)


def post(text):
    return daemon.raw("POST", INFER, text, {"Content-Type": "application/json"})


class MLServer(unittest.TestCase):
    def check(self, text, wanted):
        status, _, body = post(text)
        self.assertEqual(status, 200, body)
        reply = InferenceResponse.model_validate_json(body)
        self.assertEqual(reply.model_name, "attention")
        for output in reply.outputs:
            np.testing.assert_allclose(NumpyCodec.decode_output(output), wanted[output.name], rtol=1e-6)
        return reply

    def test_unset_fields_are_null(self):
        wanted = daemon.post_json("/attention", ROWS)
        text = request().json()
        self.assertIn('"id":null', text)
        self.check(text, wanted)
        self.check(request().model_dump_json(), wanted)

    def test_content_types_of_parameters(self):
        wanted = daemon.post_json("/attention", {**ROWS, "causal": True, "return": ["output", "lse"]})
        named = request(id="7", parameters=Parameters(content_type="np", headers={"a": "b"}, causal=True),
                        outputs=[RequestOutput(name="lse", parameters=Parameters(content_type="np")),
                                 RequestOutput(name="output")])
        for text in (named.json(), named.model_dump_json()):
            reply = self.check(text, wanted)
            self.assertEqual((reply.id, [o.name for o in reply.outputs]), ("7", ["lse", "output"]))

    def test_errors_reach_the_user(self):
        for wrong, word in ((request({**ROWS, "k": [[1, 1], [0, 1]]}), "d_k = 3"),
                            (request(parameters=Parameters(windou=1)), "windou"),
                            (request(outputs=[RequestOutput(name="no")]), "no")):
            status, headers, body = post(wrong.json())
            self.assertIn(status, (400, 422))
            self.assertEqual(headers["content-type"], "application/json")
            self.assertIn(word, json.loads(body)["error"])

    def test_the_batch_client(self):
        """`mlserver infer` sends each line of a file, and writes the replies or the errors to another."""
        wrong = request({**ROWS, "k": [[1, 1], [0, 1]]}, id="wrong")
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder) / "in", pathlib.Path(folder) / "out"
            source.write_text("".join(r.model_dump_json() + "\n" for r in (request(id="right"), wrong)))
            command = [pathlib.Path(sys.executable).with_name("mlserver"), "infer", "-u", daemon.address, "-m", "attention",
                       "-i", source, "-o", target, "-w", "1", "-r", "1", "-s", "1"]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
            lines = target.read_text().splitlines()
        replies = [json.loads(line) for line in lines]
        good = [r for r in replies if "outputs" in r]
        bad = [r for r in replies if "error" in r]
        self.assertEqual((len(good), len(bad)), (1, 1), f"{lines} {ran.stderr}")
        wanted = daemon.post_json("/attention", ROWS)["output"]
        np.testing.assert_allclose(np.array(good[0]["outputs"][0]["data"]).reshape(2, 3), wanted, rtol=1e-6)
        self.assertIn("d_k = 3", json.dumps(bad[0]["error"]))


if __name__ == "__main__":
    unittest.main()
