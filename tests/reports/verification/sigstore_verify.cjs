// node sigstore_verify.cjs PACKAGES KEY CLAIMS: for each line what @sigstore/verify has against it.
const { createRequire } = require("node:module");
const crypto = require("node:crypto");
const fs = require("node:fs");

const [packages, key, claims] = process.argv.slice(2);
const from = createRequire(`${packages}/index.js`);
const { bundleFromJSON } = from("@sigstore/bundle");
const { Verifier, toSignedEntity, toTrustMaterial } = from("@sigstore/verify");

const publicKey = crypto.createPublicKey(fs.readFileSync(key));
const root = { certificateAuthorities: [], ctlogs: [], timestampAuthorities: [], tlogs: [] };
const trusted = toTrustMaterial(root, () => ({ publicKey, validFor: () => true }));
const none = { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0 };
const verifier = new Verifier(trusted, none);

const said = fs.readFileSync(claims, "utf8").trim().split("\n").map((line) => {
  try {
    verifier.verify(toSignedEntity(bundleFromJSON(JSON.parse(line))));
    return null;
  } catch (error) {
    return error.code ?? String(error);
  }
});
process.stdout.write(JSON.stringify(said));
