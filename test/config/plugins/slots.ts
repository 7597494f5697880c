/** The slots of the plugins in this folder. */
declare module "sluice-gateway/plugin" {
  interface Slots {
    tenant: string;
    bodyTenant: string;
    signature: string;
  }
}
