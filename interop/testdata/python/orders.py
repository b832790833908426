"""A program as people write it with Python's own library; it knows nothing of Eider."""

import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 5  # of a silent connection, which keeps its thread

    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer(b"ok\n")

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(0.005)
        self.answer(b"paid\n")

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = False  # server_close waits for the answers that have begun
    request_queue_size = 128


server = Server(("127.0.0.1", int(os.environ["PORT"])), Orders)


def end(*_):
    print("told to end", flush=True)
    threading.Thread(target=server.shutdown).start()


signal.signal(signal.SIGTERM, end)
print("serving", flush=True)
server.serve_forever(poll_interval=0.05)
server.server_close()
sys.exit(5)
