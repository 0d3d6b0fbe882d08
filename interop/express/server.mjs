// Four servers on free loopback ports, one for each spelling of the headers that
// express-rate-limit knows. Prints the ports as one line of JSON.
import express from "express";
import { rateLimit } from "express-rate-limit";

const spellings = {
  legacy: { legacyHeaders: true, standardHeaders: false },
  "draft-6": { legacyHeaders: false, standardHeaders: "draft-6" },
  "draft-7": { legacyHeaders: false, standardHeaders: "draft-7" },
  "draft-8": { legacyHeaders: false, standardHeaders: "draft-8" },
};

const ports = {};
for (const [name, headers] of Object.entries(spellings)) {
  const app = express();
  app.use(rateLimit({ windowMs: 2000, limit: 20, ...headers }));
  app.get("/", (_, res) => res.send("ok"));
  ports[name] = await new Promise((resolve) => {
    const server = app.listen(0, "127.0.0.1", () => resolve(server.address().port));
  });
}
console.log(JSON.stringify(ports));
