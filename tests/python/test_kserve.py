"""The unmodified REST client of KServe's SDK against the Open Inference Protocol under /v2."""
import unittest

import httpx
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

from daemon import Daemon

daemon = None
ROWS = {"q": [[2, 0, 1], [0, 2, 1]], "k": [[1, 1, 0], [0, 1, 1]], "v": [[1, 0, 1], [0, 1, 0]]}


def setUpModule():
    global daemon
    daemon = Daemon()


def tearDownModule():
    daemon.stop()


def inputs(binary, rows=ROWS):
    result = []
    for name, values in rows.items():
        tensor = InferInput(name, [len(values), len(values[0])], "FP32")
        tensor.set_data_from_numpy(np.array(values, np.float32), binary_data=binary)
        result.append(tensor)
    return result


class KServe(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = InferenceRESTClient(RESTConfig(protocol="v2"))

    async def asyncTearDown(self):
        await self.client.close()

    async def infer(self, request, model="attention"):
        return await self.client.infer(daemon.url, request, model_name=model)

    async def fails(self, request, *words):
        """The sentence of the service reaches the user."""
        with self.assertRaises(httpx.HTTPStatusError) as caught:
            await self.infer(request)
        for word in words:
            self.assertIn(word, str(caught.exception))

    async def test_readiness(self):
        self.assertTrue(await self.client.is_server_live(daemon.url))
        self.assertTrue(await self.client.is_server_ready(daemon.url))
        self.assertTrue(await self.client.is_model_ready(daemon.url, "mha"))
        self.assertFalse(await self.client.is_model_ready(daemon.url, "other"))

    async def test_the_same_numbers_as_json(self):
        for causal in (False, True):
            wanted = daemon.post_json("/attention", {**ROWS, "causal": causal})["output"]
            for binary in (False, True):
                request = InferRequest("attention", inputs(binary), request_id="7", parameters={"causal": causal})
                reply = await self.infer(request)
                self.assertEqual((reply.id, reply.model_name), ("7", "attention"))
                np.testing.assert_allclose(reply.outputs[0].as_numpy(), wanted, rtol=1e-6)

    async def test_outputs_as_bytes_and_as_numbers(self):
        wanted = daemon.post_json("/attention", {**ROWS, "return": ["output", "lse"]})
        asked = [RequestedOutput("lse", {"binary_data": False}), RequestedOutput("output", {"binary_data": True})]
        reply = await self.infer(InferRequest("attention", inputs(True), request_outputs=asked))
        self.assertEqual([o.name for o in reply.outputs], ["lse", "output"])
        for output in reply.outputs:
            np.testing.assert_allclose(output.as_numpy(), wanted[output.name], rtol=1e-6)

    async def test_errors_reach_the_user(self):
        await self.fails(InferRequest("mha", inputs(False)), "model_name", '"attention"', "400")
        await self.fails(InferRequest("attention", inputs(False, {**ROWS, "k": [[1, 1], [0, 1]]})), "d_k = 3", "422")
        await self.fails(InferRequest("attention", inputs(True), parameters={"windou": 1}), "windou", "window", "422")


if __name__ == "__main__":
    unittest.main()
