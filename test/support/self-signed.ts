/** Creates a certificate for one host name, because no key belongs into a repository. */
import { createSign, generateKeyPairSync } from 'node:crypto'

const tagged = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts)
  const size = body.length
  const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 0xff]
  return Buffer.concat([Buffer.from([tag, ...length]), body])
}
const sequence = (...parts: readonly Uint8Array[]) => tagged(0x30, ...parts)
const bits = (bytes: Uint8Array) => tagged(0x03, Buffer.from([0]), bytes)

const commonName = Buffer.from([0x06, 0x03, 0x55, 0x04, 0x03])
const subjectAltName = Buffer.from([0x06, 0x03, 0x55, 0x1d, 0x11])
const ecdsaWithSha256 = sequence(Buffer.from([0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]))

export function selfSigned(host: string): { readonly key: string; readonly cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const name = sequence(tagged(0x31, sequence(commonName, tagged(0x0c, Buffer.from(host)))))
  const time = (text: string) => tagged(0x17, Buffer.from(text))
  const altNames = sequence(tagged(0x82, Buffer.from(host)))
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.from([1])),
    ecdsaWithSha256,
    name,
    sequence(time('250101000000Z'), time('491231235959Z')),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(sequence(subjectAltName, tagged(0x04, altNames)))),
  )
  const signature = createSign('sha256').update(body).sign(privateKey)
  const der = sequence(body, ecdsaWithSha256, bits(signature)).toString('base64')
  const cert = `-----BEGIN CERTIFICATE-----\n${der.match(/.{1,64}/g)?.join('\n') ?? ''}\n-----END CERTIFICATE-----\n`
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert }
}
