/** The default theme of VitePress, with corrections of its contrast and of code that is wider than the page. */
import theme from "vitepress/theme";
import "./corrections.css";

export default theme;
