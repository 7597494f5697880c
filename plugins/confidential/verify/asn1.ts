/**
 * `@peculiar/asn1-x509` has the types of RFC 5280; the few others are below. It has schemas only; `@peculiar/x509`
 * needs a polyfill of the global `Reflect`, which a library for clients must not impose. Input that cannot be read
 * returns undefined and never throws, because it comes from the party that is being verified.
 */
import {
  AsnArray,
  AsnConvert,
  AsnIntegerBigIntConverter,
  AsnProp,
  AsnPropTypes,
  AsnType,
  AsnTypeTypes,
} from "@peculiar/asn1-schema";
import { AttributeTypeAndValue } from "@peculiar/asn1-x509";
import { sameBytes, toHex, type Bytes } from "./binary-text.ts";

/** Certificates nest about ten levels deep. A list of revoked certificates has about eight values for each of them. */
const berOptions = { maxDepth: 24, maxNodes: 100_000 };

/**
 * The library also accepts BER and ignores bytes that follow, so the value is written again and compared. What is
 * accepted is therefore DER, and two readers cannot see different values in it.
 */
export function readAsn1<T>(der: Uint8Array, type: new () => T): T | undefined {
  try {
    const value = AsnConvert.parse(der, type, { berOptions });
    return sameBytes(writeAsn1(value), der) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the DER of a value that `readAsn1` has returned, or of one of its members. */
export function writeAsn1(value: unknown): Bytes {
  return new Uint8Array(AsnConvert.serialize(value));
}

export function octetsHex(octets: ArrayBuffer): string {
  return toHex(new Uint8Array(octets));
}

/** SEQUENCE { r INTEGER, s INTEGER } (RFC 3279, 2.2.3). */
export class EcdsaSignature {
  r = 0n;
  s = 0n;
}
const bigInteger = { type: AsnPropTypes.Integer, converter: AsnIntegerBigIntConverter } as const;
AsnType({ type: AsnTypeTypes.Sequence })(EcdsaSignature);
AsnProp(bigInteger)(EcdsaSignature.prototype, "r");
AsnProp(bigInteger)(EcdsaSignature.prototype, "s");

/** SEQUENCE OF SEQUENCE { OBJECT IDENTIFIER, ANY }: the fields of Intel's SGX extension. */
export class Fields extends AsnArray<AttributeTypeAndValue> {}
AsnType({ type: AsnTypeTypes.Sequence, itemType: AttributeTypeAndValue })(Fields);

/** INTEGER or IA5String: the value of one of AMD's extensions. */
export class ChipFact {
  /** Decimal digits if it needs more than three octets. */
  number?: number | string;
  name?: string;
}
AsnType({ type: AsnTypeTypes.Choice })(ChipFact);
AsnProp({ type: AsnPropTypes.Integer })(ChipFact.prototype, "number");
AsnProp({ type: AsnPropTypes.IA5String })(ChipFact.prototype, "name");
