"""What docs/endpoints.md says of proxies, certificates and addresses, with servers on loopback."""

import json
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ems import InputError, LLMJudge
from ems.judge import Request
from ems.judge.pace import JudgeUnavailable

COMPLETION = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "57"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}
REQUEST = Request("judge", "How good is the answer?", 32)


class Answering(BaseHTTPRequestHandler):
    """Answers every call, and notes its path and key."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.calls.append((self.path, self.headers["authorization"]))
        body = json.dumps(COMPLETION).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.calls = []
    thread = threading.Thread(target=server.serve_forever)
    yield server, thread
    server.shutdown()
    thread.join()
    server.server_close()


def judge_at(address):
    return LLMJudge("m", base_url=address, api_key="a-key-that-is-long-enough", timeout=10)


def test_an_address_has_its_own_path_and_the_key_is_a_bearer(server):
    server, thread = server
    thread.start()
    judge = judge_at(f"http://127.0.0.1:{server.server_port}/openai/v1/")
    assert judge.ask([REQUEST])[0].text == "57"
    assert server.calls == [("/openai/v1/chat/completions", "Bearer a-key-that-is-long-enough")]


@pytest.mark.parametrize("end", ["?api-version=preview", "#deployment"])
def test_an_address_with_a_query_is_refused(end):
    with pytest.raises(InputError, match=r"without '\?' and '#'"):
        judge_at("http://127.0.0.1:9/openai/v1/" + end)


def test_a_proxy_is_read_from_the_environment(server, monkeypatch):
    server, thread = server
    thread.start()
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.server_port}")
    assert judge_at("http://judge.example/v1").ask([REQUEST])[0].text == "57"
    assert server.calls[0][0] == "http://judge.example/v1/chat/completions"


def test_a_certificate_of_ones_own_is_named_by_the_environment(server, monkeypatch, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate of this test")
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        + ["-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    server, thread = server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread.start()
    address = f"https://localhost:{server.server_port}/v1"
    with pytest.raises(JudgeUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        judge_at(address).ask([REQUEST])
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert judge_at(address).ask([REQUEST])[0].text == "57"
