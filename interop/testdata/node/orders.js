// A program as people write it in Node; it knows nothing of Eider.
const http = require("node:http");

const server = http.createServer((req, res) => {
  if (req.method === "GET") {
    res.end("ok\n");
    return;
  }
  req.resume();
  req.on("end", () => setTimeout(() => res.end("paid\n"), 5));
});

process.on("SIGTERM", () => {
  console.log("told to end");
  server.close(() => process.exit(4));
  server.closeIdleConnections();
});

server.listen(Number(process.env.PORT), "127.0.0.1", () => console.log("serving"));
